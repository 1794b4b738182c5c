"""The errors of the operator's commands."""

from typing import Final

from engine.text import visible

# What Python raises when an answer has another form than its API describes: a text in another encoding, null
# or a number where an object belongs, a thousand nested brackets.
ODD_ANSWER: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)


class OperationError(Exception):
    """Why a command could not do its work; the text is meant for the person who gave it.

    Args:
        text: It may quote a server, so what a terminal would obey is shown as its code.
    """

    def __init__(self, text: object = "") -> None:
        super().__init__(visible(str(text)))


class CallError(OperationError):
    """A call to Google that ended without a usable answer.

    Args:
        method: Id of the method, such as `compute.regions.get`.
        reason: What went wrong, for a person.
        status: HTTP status, None when no answer came or it was not understood.
        disabled: The API that is not enabled, such as `compute.googleapis.com`, if that is why.
        consumer: Id or number of the project in which that API is off; empty when Google does not say.
    """

    def __init__(
        self, method: str, reason: str, status: int | None = None, disabled: str = "", consumer: str = ""
    ) -> None:
        super().__init__(f"{method}: {f'{status} ' if status else ''}{reason}")
        self.method = method
        self.status = status
        self.disabled = disabled
        self.consumer = consumer

    @property
    def forbidden(self) -> bool:
        """Whether the caller may not ask."""
        return self.status in (401, 403)

    @property
    def missing(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.status == 404
