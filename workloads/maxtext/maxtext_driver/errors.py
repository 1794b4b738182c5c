"""The error that a user can correct."""


class InputError(Exception):
    """Something that the user can correct; the message is one line and says how."""
