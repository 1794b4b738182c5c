"""Training with the shipped recipes against training with the tutorials' settings, on the same rows."""
