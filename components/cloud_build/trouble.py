"""What is wrong with a call to Cloud Build, and for how long trying again can help."""

from enum import Enum

from google.auth.exceptions import GoogleAuthError, TransportError
from googleapiclient.errors import HttpError


class Kind(Enum):
    """Why a call failed: how many seconds to go on trying, and what to do when that did not help.

    IAM's changes reach every place within 2 minutes as a rule, and sometimes need more than 7:
    https://docs.cloud.google.com/iam/docs/access-change-propagation
    """

    PROPAGATION = (
        480.0,
        "; tried for 8 minutes, so it is not a new project's delay; the caller needs "
        "roles/cloudbuild.builds.editor on the project and roles/iam.serviceAccountUser on the "
        "build's service account, and the Cloud Build API must be on",
    )
    OUTAGE = (300.0, "; tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again")
    QUOTA = (
        60.0,
        "; a quota of Cloud Build is used up: wait for other builds, ask for more at "
        "https://console.cloud.google.com/iam-admin/quotas?service=cloudbuild.googleapis.com, or build in "
        "another region",
    )
    CREDENTIALS = (0.0, "; run `gcloud auth application-default login`")
    REJECTED = (0.0, "")


class Trouble(Exception):
    """A failed call.

    Args:
        error: One of `CALL_ERRORS`.

    Attributes:
        reason: The server's message.
        timeout_s: How many seconds to go on trying.
    """

    def __init__(self, error: Exception) -> None:
        self.reason, kind = _judged(error)
        self.timeout_s, remedy = kind.value
        super().__init__(self.reason + remedy)


def _judged(error: Exception) -> tuple[str, Kind]:
    """The server's message without the address of the call around it, and what it means."""
    if isinstance(error, HttpError):
        reason = error.reason or f"HTTP {error.status_code}"
        return reason, _kind(error.status_code, reason.lower())
    if isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
        return str(error), Kind.CREDENTIALS
    return "Cloud Build cannot be reached", Kind.OUTAGE


def _kind(status: int, reason: str) -> Kind:
    """Judges an answer by its status and, where that says too little, by its message.

    A region that new projects may not build in is a failed precondition, which is a bad request; an account
    or object that is not visible yet is one too. https://docs.cloud.google.com/build/docs/locations
    """
    match status:
        case 401:
            return Kind.CREDENTIALS
        case 403 | 404:
            return Kind.PROPAGATION
        case 400 if "service account" in reason or "could not resolve source" in reason:
            return Kind.PROPAGATION
        case 429:
            return Kind.QUOTA
        case 400 if "quota" in reason:
            return Kind.QUOTA
    return Kind.OUTAGE if status >= 500 else Kind.REJECTED
