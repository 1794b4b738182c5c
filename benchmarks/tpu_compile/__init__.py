"""Compiles a recipe for a TPU topology on a CPU: memory of a chip, and traffic between the chips."""
