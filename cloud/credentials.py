"""Whose credentials Google's APIs are called with."""

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.oauth2.credentials import Credentials as UserCredentials

# What the library says when it has found none at all.
_NONE = "Your default credentials were not found."
_REMEDY = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of some"
)
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def find_credentials(endpoint: str | None, project: str | None = None) -> Credentials:
    """Application Default Credentials, or none at all for a server that is not Google's.

    Args:
        endpoint: Address of a server that answers in Google's place; None for Google.
        project: Project whose quota the calls of a person's credentials count against, unless these name one
            themselves; None to leave that to the API.

    Raises:
        DefaultCredentialsError: Without usable credentials; the message says what to do.
    """
    if endpoint and endpoint.startswith("http://"):
        # A token in plain text is anybody's; what answers on plain HTTP is a local server.
        return AnonymousCredentials()
    try:
        credentials, _ = google.auth.default(scopes=_SCOPES)
    # The library does not expect every file that may be named to it.
    except (DefaultCredentialsError, OSError, AttributeError, TypeError) as error:
        trouble = "there are no Application Default Credentials"
        if not str(error).startswith(_NONE):
            trouble = f"the file of the Application Default Credentials cannot be used ({error.args[0]})"
        raise DefaultCredentialsError(f"{trouble}: {_REMEDY}") from None
    if project and isinstance(credentials, UserCredentials) and not credentials.quota_project_id:
        # Some APIs reject a person's credentials that name no project.
        return credentials.with_quota_project(project)
    return credentials


def is_on_the_way(error: GoogleAuthError) -> bool:
    """Whether it is not the credentials: a new token could not be fetched."""
    return error.retryable or any(isinstance(each, TransportError) for each in (error, error.__cause__))
