"""Starts a program in one process per GPU, on one node or several, and says how it ended."""
