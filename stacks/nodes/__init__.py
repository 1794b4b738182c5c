"""How a job gets its nodes: labels, a class, a queue, or nodes that Kueue requests."""
