"""What the trainers share: how a run ends, its records, its files and its options."""
