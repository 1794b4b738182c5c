"""The error a person can put right, and the exit codes of the command line."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


class InputError(Exception):
    """Something whoever started the run can put right; the message is one line and names the remedy."""
