"""Rows of a data set, and how they become tokens."""
