"""The error of the rehearsal."""

from engine.errors import EngineError


class RehearsalError(EngineError):
    """A rehearsal ends or fails. The message is for the person who started it."""
