"""Compares training with the shipped recipes and with the tutorials' settings, on the same rows."""
