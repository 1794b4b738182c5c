"""Runs a stack with its pods, on tiny models and stand-ins for what is not on this machine."""
