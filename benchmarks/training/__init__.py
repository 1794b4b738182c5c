"""Compares training with the shipped recipes and with trl used well, on the same rows."""
