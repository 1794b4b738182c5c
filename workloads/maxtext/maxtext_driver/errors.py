"""The error that a user can correct, and the exit codes of the command line."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


class InputError(Exception):
    """Something that the user can correct; the message is one line and says how."""
