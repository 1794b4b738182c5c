"""Leftovers of a stack in its project, after `destroy` or after an `up` that failed."""
