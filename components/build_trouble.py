"""What is wrong with a call to Cloud Build, and whether time will mend it."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.api_core.exceptions import (
    BadRequest,
    Forbidden,
    GoogleAPICallError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from google.auth.exceptions import GoogleAuthError, TransportError
from requests import RequestException


class Kind(Enum):
    """Why a call failed: how long to go on trying, in seconds, and what to do when that did not help.

    IAM's changes reach every place within 2 minutes as a rule, and sometimes need more than 7:
    https://docs.cloud.google.com/iam/docs/access-change-propagation
    """

    PROPAGATION = (
        480.0,
        "tried for 8 minutes, so it is not a new project's delay; the caller needs "
        "roles/cloudbuild.builds.editor on the project and roles/iam.serviceAccountUser on the "
        "build's service account, and the Cloud Build API must be on",
    )
    OUTAGE = (300.0, "tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again")
    QUOTA = (
        60.0,
        "a quota of Cloud Build is used up: wait for other builds, ask for more at "
        "https://console.cloud.google.com/iam-admin/quotas?service=cloudbuild.googleapis.com, or build in "
        "another region",
    )
    CREDENTIALS = (0.0, "run `gcloud auth application-default login`")
    REFUSED = (0.0, "")

    def __init__(self, patience_s: float, remedy: str) -> None:
        self.patience_s = patience_s
        self.remedy = remedy


@dataclass(frozen=True)
class Trouble:
    """A failed call.

    Args:
        kind: Why it failed.
        text: The server's words.
    """

    kind: Kind
    text: str

    @classmethod
    def of(cls, error: Exception) -> "Trouble":
        """Judges an error by its status and, where that says too little, by its words."""
        text = _text(error)
        match error:
            case TransportError() | ServerError() | RequestException():
                return cls(Kind.OUTAGE, text)
            case GoogleAuthError() | Unauthorized():
                return cls(Kind.CREDENTIALS, text)
            case TooManyRequests():
                return cls(Kind.QUOTA, text)
            case Forbidden() | NotFound():
                return cls(Kind.PROPAGATION, text)
            case BadRequest():
                return cls(_bad_request(text.lower()), text)
        return cls(Kind.REFUSED, text)

    def explanation(self) -> str:
        """The server's words and what to do."""
        return f"{self.text}; {self.kind.remedy}" if self.kind.remedy else self.text


def _bad_request(text: str) -> Kind:
    """New projects may not build everywhere, and that comes as a failed precondition; an account or
    object that is not visible yet comes as an invalid argument.

    https://docs.cloud.google.com/build/docs/locations
    """
    if "quota" in text:
        return Kind.QUOTA
    if "service account" in text or "could not resolve source" in text:
        return Kind.PROPAGATION
    return Kind.REFUSED


def _text(error: Exception) -> str:
    """The server's message without the address of the call around it."""
    if isinstance(error, GoogleAPICallError) and error.response is not None:
        try:
            answer: Any = error.response.json()
            return answer["error"]["message"]
        except (ValueError, KeyError, TypeError):
            return f"HTTP {error.code}"
    if isinstance(error, RequestException):
        return "Cloud Build cannot be reached"
    return str(error)
