"""The command `status`: what a stack's workloads do now, and why something waits."""
