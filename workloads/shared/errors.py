"""Errors that end a command with one line. Those of a recipe are in recipe_file.py."""

import unicodedata
from collections.abc import Iterator

# Control characters of terminals, halves of characters and line ends that few programs know.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Joined emoji and letters have the last two.
_SHOWN = "\n\t\u200c\u200d"


def visible(text: str) -> str:
    """A text that somebody else may have written, with codes in place of what acts on a terminal."""
    if text.isascii() and text.isprintable():
        return text
    is_hidden = {letter: unicodedata.category(letter) in _HIDDEN for letter in {*text} - {*_SHOWN}}
    return "".join(ascii(letter)[1:-1] if is_hidden.get(letter) else letter for letter in text)


class _LineError(Exception):
    """An error whose message is for a terminal or a log."""

    def __init__(self, text: object = "") -> None:
        super().__init__(visible(str(text)))


class InputError(_LineError):
    """Something that the user can correct. The message is one line and says how."""


class PassingError(_LineError):
    """Something that may be over by the next start. The message is one line and says what it is."""


def one_line(error: BaseException) -> str:
    """The message of an error in one line, or its class when it has none."""
    return visible(" ".join(str(error).split())[:300]) or type(error).__name__


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
