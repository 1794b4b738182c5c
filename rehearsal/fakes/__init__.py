"""The fake providers, and the cloud in which they create resources."""
