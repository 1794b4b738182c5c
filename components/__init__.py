"""Building blocks of the stacks: one noun a file, each owning its identity and access."""
