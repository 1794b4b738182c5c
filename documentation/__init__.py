"""What `make docs` writes: the picture of every scenario and the reference of the settings."""
