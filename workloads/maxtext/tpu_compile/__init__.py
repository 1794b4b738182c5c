"""A recipe compiled for a real TPU topology on a CPU: memory of a chip, and what goes between the chips."""
