"""The error of the rehearsal."""


class RehearsalError(Exception):
    """Something that the person who asked for the rehearsal must know; the text is meant for them."""
