"""Pre-trains with MaxText on a TPU slice under Ray Train: recipes, a run's directory, resuming, metrics."""
