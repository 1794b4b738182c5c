"""Service accounts and tokens."""
