"""The error of the rehearsal."""

from engine.errors import EngineError


class RehearsalError(EngineError):
    """Something that the person who asked for the rehearsal must know; the text is meant for them."""
