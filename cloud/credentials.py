"""Whose credentials Google's APIs are called with."""

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError
from google.oauth2.credentials import Credentials as UserCredentials

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def find_credentials(endpoint: str | None, project: str | None = None) -> Credentials:
    """Application Default Credentials, or none at all for a server that is not Google's.

    Args:
        endpoint: Address of a server that answers in Google's place; None for Google.
        project: Project whose quota the calls of a person's credentials count against, unless these name one
            themselves; None to leave that to the API.

    Raises:
        DefaultCredentialsError: Without credentials; the message says how to get some.
    """
    if endpoint and endpoint.startswith("http://"):
        # A token in plain text is anybody's; what answers on plain HTTP is a local server.
        return AnonymousCredentials()
    try:
        credentials, _ = google.auth.default(scopes=_SCOPES)
    except DefaultCredentialsError:
        raise DefaultCredentialsError(
            "there are no Application Default Credentials: run `gcloud auth application-default login`, "
            "or set GOOGLE_APPLICATION_CREDENTIALS"
        ) from None
    if project and isinstance(credentials, UserCredentials) and not credentials.quota_project_id:
        # Some APIs reject a person's credentials that name no project.
        return credentials.with_quota_project(project)
    return credentials
