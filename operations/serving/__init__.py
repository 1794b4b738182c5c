"""The commands that talk to a stack's model: `ask` and `bench`."""
