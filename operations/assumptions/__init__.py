"""The assumptions about the cloud, and their checks in a first real project."""
