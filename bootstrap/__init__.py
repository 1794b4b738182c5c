"""Sets up the pipelines before the first stack: the state's bucket, and the jobs' identities at Google."""
