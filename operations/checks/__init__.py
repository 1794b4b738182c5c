"""What `preflight` looks at, a file for each topic."""
