"""The error of the engine room."""


class EngineError(Exception):
    """Why the engine cannot be had or run as asked; the text is meant for the person who asked."""
