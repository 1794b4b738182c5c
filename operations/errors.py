"""The errors of the operator's commands."""


class OperationError(Exception):
    """Why a command could not do its work; the text is meant for the person who gave it."""


class CallError(OperationError):
    """A call to Google that ended without a usable answer.

    Args:
        method: Id of the method, such as `compute.regions.get`.
        reason: What went wrong, for a person.
        status: HTTP status, None when no answer came or it was not understood.
        disabled: The API that is not enabled, such as `compute.googleapis.com`, if that is why.
    """

    def __init__(self, method: str, reason: str, status: int | None = None, disabled: str = "") -> None:
        super().__init__(f"{method}: {f'{status} ' if status else ''}{reason}")
        self.method = method
        self.status = status
        self.disabled = disabled

    @property
    def forbidden(self) -> bool:
        """Whether the caller may not ask."""
        return self.status in (401, 403)

    @property
    def missing(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.status == 404
