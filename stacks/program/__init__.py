"""A program on the nodes of a job: the trainer's, or a person's own."""
