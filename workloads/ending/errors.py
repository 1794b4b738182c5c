"""Errors that end a command with one line, beside a recipe's in recipe_file.py."""


class InputError(Exception):
    """Something that the user can correct; the message is one line and says how."""


class PassingError(Exception):
    """Something that may have passed by the next start; the message is one line and says what."""


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
