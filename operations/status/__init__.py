"""What a stack's workloads are doing now, and why something of it waits."""
