"""A run's folder, in a bucket or on a disk, and its checkpoints."""
