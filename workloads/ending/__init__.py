"""How a run ends: what both trainers, the manifests' tests and the documents share."""
