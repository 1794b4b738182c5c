"""Compiles a recipe for a TPU topology on a CPU, for the memory of a chip and the traffic between chips."""
