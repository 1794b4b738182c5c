"""Moves a job as a whole from one capacity to the next."""
