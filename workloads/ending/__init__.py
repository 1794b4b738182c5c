"""What both trainers share: how a run ends, its directory and its options."""
