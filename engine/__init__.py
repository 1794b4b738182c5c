"""The Pulumi engine: finding it, running it, and what it says."""
