"""Calls of Google's APIs."""
