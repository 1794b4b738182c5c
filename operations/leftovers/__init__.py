"""What a stack left behind in its project after `destroy`, or after an `up` that failed."""
