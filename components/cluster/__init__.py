"""The clusters of GKE, and what every pod in them needs."""
