"""Rows as people have them, and what a run makes of each. Preflight imports this, too."""
