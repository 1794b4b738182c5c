"""What `make docs` writes: the picture of every scenario, the reference of the settings, what is assumed."""
