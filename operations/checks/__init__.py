"""The checks of `preflight`, a file for each topic."""
