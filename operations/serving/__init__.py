"""The commands that talk to a stack's model: `ask`, `bench` and `verify`."""
