"""What both trainers share: how a run ends, its directory, its options. The manifests' tests read it too."""
