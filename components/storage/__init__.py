"""Buckets, and what lies in them."""
