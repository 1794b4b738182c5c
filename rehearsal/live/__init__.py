"""A rehearsed stack's objects on a local control plane."""
