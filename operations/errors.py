"""The errors of the operator's commands."""

from typing import Final

from engine.text import visible

# Python's errors when an answer has another form than its API describes. For example a text in another
# encoding, null in place of an object, or a thousand nested brackets.
ODD_ANSWER: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)


class OperationError(Exception):
    """Why a command could not do its work. The text is for the user.

    Args:
        text: It may quote a server, so control characters are shown as their codes.
    """

    def __init__(self, text: object = "") -> None:
        super().__init__(visible(str(text)))


class CallError(OperationError):
    """A call to Google that ended without a usable answer.

    Args:
        method: Id of the method, such as `compute.regions.get`.
        reason: What went wrong, for a person.
        status: HTTP status, None without an answer or if it was not understood.
        disabled: The API that is not enabled, such as `compute.googleapis.com`, if that is why.
        consumer: Id or number of the project in which that API is off. Empty if Google does not say.
    """

    def __init__(
        self, method: str, reason: str, status: int | None = None, disabled: str = "", consumer: str = ""
    ) -> None:
        super().__init__(f"{method}: {f'{status} ' if status else ''}{reason}")
        self.method = method
        self.reason = reason
        self.status = status
        self.disabled = disabled
        self.consumer = consumer

    @property
    def forbidden(self) -> bool:
        """Whether the caller lacks the right."""
        return self.status in (401, 403)

    @property
    def missing(self) -> bool:
        """Whether the requested thing does not exist."""
        return self.status == 404
