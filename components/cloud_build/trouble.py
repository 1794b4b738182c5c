"""What is wrong with a call to Cloud Build, and for how long trying again can help."""

from enum import Enum
from typing import Any, Final

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError, TransportError
from requests import RequestException

# Every error that a call can end with, from the answer, the way there or the credentials.
CALL_ERRORS: Final = (exceptions.GoogleAPICallError, RequestException, GoogleAuthError)


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
        error: What the client library raised.

    Attributes:
        reason: The server's message.
        timeout_s: How many seconds to go on trying.
    """

    def __init__(self, error: Exception) -> None:
        self.reason = _reason(error)
        self.timeout_s, remedy = _kind(error, self.reason.lower()).value
        super().__init__(self.reason + remedy)


def _kind(error: Exception, reason: str) -> Kind:
    """Judges an error by its status and, where that says too little, by its message."""
    match error:
        case TransportError() | exceptions.ServerError() | RequestException():
            return Kind.OUTAGE
        case GoogleAuthError() | exceptions.Unauthorized():
            return Kind.CREDENTIALS
        case exceptions.TooManyRequests():
            return Kind.QUOTA
        case exceptions.Forbidden() | exceptions.NotFound():
            return Kind.PROPAGATION
        # A region that new projects may not build in is a failed precondition:
        # https://docs.cloud.google.com/build/docs/locations
        case exceptions.BadRequest() if "quota" in reason:
            return Kind.QUOTA
        # An account or object that is not visible yet is an invalid argument.
        case exceptions.BadRequest() if "service account" in reason or "could not resolve source" in reason:
            return Kind.PROPAGATION
    return Kind.REJECTED


def _reason(error: Exception) -> str:
    """The server's message without the address of the call around it."""
    if isinstance(error, RequestException):
        return "Cloud Build cannot be reached"
    if not isinstance(error, exceptions.GoogleAPICallError) or error.response is None:
        return str(error)
    try:
        answer: Any = error.response.json()
        return answer["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
