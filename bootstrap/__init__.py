"""What the pipelines need before the first stack: where the state lives, and who a job is at Google."""
