"""A trial of a recipe on a CPU, before accelerators are asked for: its own code path, on a small model."""
