"""Errors that end a command with one line. Those of a recipe are in recipe_file.py."""

from collections.abc import Iterator


class InputError(Exception):
    """Something that the user can correct. The message is one line and says how."""


class PassingError(Exception):
    """Something that may be over by the next start. The message is one line and says what it is."""


def one_line(error: BaseException) -> str:
    """The message of an error in one line, or its class when it has none."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that led to it.

    torch raises one CheckpointException for all ranks, with each rank's own error in its `failures`.
    """
    pending, seen = [error], set[int]()
    while pending:
        cause = pending.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        failures = [failure for failure, _trace in getattr(cause, "failures", {}).values()]
        pending += [other for other in (cause.__cause__, cause.__context__, *failures) if other]
