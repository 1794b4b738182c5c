"""MaxText pre-training on a TPU slice, driven by Ray Train: recipes, one run's directory, resume, metrics."""
