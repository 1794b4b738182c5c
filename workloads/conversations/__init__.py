"""Rows as people have them, and the tokens of a conversation. Trainers share it, and preflight imports it."""
