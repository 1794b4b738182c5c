"""Finds the credentials that Pulumi's provider for Google Cloud uses.

https://www.pulumi.com/registry/packages/gcp/installation-configuration/
"""

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import google.auth
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.oauth2.credentials import Credentials as UserCredentials

# The settings of a stack that choose credentials, as the provider names them.
ACCESS_TOKEN: Final = "gcp:accessToken"
CREDENTIALS: Final = "gcp:credentials"
IMPERSONATED: Final = "gcp:impersonateServiceAccount"
DELEGATES: Final = "gcp:impersonateServiceAccountDelegates"
SETTINGS: Final = (ACCESS_TOKEN, CREDENTIALS, IMPERSONATED, DELEGATES)
# The variables of the environment that stand for them.
TOKEN_VARIABLE: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"
_KEY_VARIABLES: Final = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")
_IMPERSONATED_VARIABLE: Final = "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"

# The library's message when there are no credentials.
_NONE: Final = "Your default credentials were not found."
_REMEDY: Final = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of "
    "credentials"
)
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)


@dataclass(frozen=True, kw_only=True)
class CredentialSettings:
    """The settings of a stack that choose credentials. Empty values leave the choice to the environment.

    Args:
        access_token: An access token.
        credentials: A file with a key or another kind of credentials, or its content.
        impersonated: Address of the service account to act as.
        delegates: Chain of service accounts that lead to it.
    """

    access_token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    impersonated: str = ""
    delegates: Sequence[str] = ()

    @classmethod
    def read(cls, value_of: Callable[[str], Any]) -> "CredentialSettings":
        """Reads the settings with a function that returns the value of a key such as `gcp:project`."""
        delegates = value_of(DELEGATES) or ()
        return cls(
            access_token=value_of(ACCESS_TOKEN) or "",
            credentials=value_of(CREDENTIALS) or "",
            impersonated=value_of(IMPERSONATED) or "",
            delegates=json.loads(delegates) if isinstance(delegates, str) else delegates,
        )


NO_SETTINGS: Final = CredentialSettings()


def find_credentials(
    endpoint: str | None, project: str | None = None, settings: CredentialSettings = NO_SETTINGS
) -> Credentials:
    """Returns the provider's credentials, or anonymous ones for a server on plain HTTP.

    The order is the provider's: the stack's settings, the variables of the environment for the same settings,
    Application Default Credentials. The credentials then impersonate a service account, if one is set.
    Nothing is sent to Google.

    Args:
        endpoint: Address of a server that answers in Google's place. None means Google.
        project: Project whose quota a person's calls count against, unless the credentials name a project.
            None leaves that to the API.

    Raises:
        DefaultCredentialsError: Without usable credentials. The message says what to do.
    """
    if endpoint and endpoint.startswith("http://"):
        # On plain HTTP anybody could read a token. A server there is a local one.
        return AnonymousCredentials()
    token, key = settings.access_token, settings.credentials
    if not token and not key:
        token, key = _variable(TOKEN_VARIABLE), _variable(*_KEY_VARIABLES)
    if token:
        credentials: Credentials = AccessToken(token)
    elif key:
        credentials = _of_key(key)
    else:
        credentials = _default()
    if account := settings.impersonated or _variable(_IMPERSONATED_VARIABLE):
        return impersonated_credentials.Credentials(
            credentials, target_principal=account, target_scopes=_SCOPES, delegates=list(settings.delegates)
        )
    if project and isinstance(credentials, UserCredentials) and not credentials.quota_project_id:
        # Some APIs reject a person's credentials that name no project.
        return credentials.with_quota_project(project)
    return credentials


class AccessToken(Credentials):
    """An access token that the user has fetched and must renew."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: Any) -> None:
        """Fails, because nothing here can renew it. The library calls this when Google rejects the token."""
        raise RefreshError(
            f"the access token of {ACCESS_TOKEN} or {TOKEN_VARIABLE} is not accepted, or no longer: set a "
            "new one, or remove it to use Application Default Credentials"
        )


def _variable(*names: str) -> str:
    return next((text for name in names if (text := os.environ.get(name))), "")


def _of_key(text: str) -> Credentials:
    """The credentials of a file, or of a file's content.

    Raises:
        DefaultCredentialsError: When the text is neither. It may be a key, so the message does not repeat it.
    """
    try:
        path = Path(text).expanduser()
        if not text.lstrip().startswith("{"):
            text = path.read_text()
        with warnings.catch_warnings():
            # The library warns of credentials from strangers. These are the user's own.
            warnings.simplefilter("ignore", DeprecationWarning)
            credentials, _ = google.auth.load_credentials_from_dict(json.loads(text), scopes=_SCOPES)
    except (DefaultCredentialsError, OSError, ValueError, AttributeError, TypeError, RuntimeError) as error:
        raise DefaultCredentialsError(
            f"{CREDENTIALS} or {_KEY_VARIABLES[0]} is neither a file of credentials nor the content of one "
            f"({type(error).__name__}): {_REMEDY}"
        ) from None
    return credentials


def _default() -> Credentials:
    try:
        credentials, _ = google.auth.default(scopes=_SCOPES)
    # The library does not expect every file that somebody may name.
    except (DefaultCredentialsError, OSError, AttributeError, TypeError) as error:
        reason = "there are no Application Default Credentials"
        if not str(error).startswith(_NONE):
            reason = f"the file of the Application Default Credentials cannot be used ({error.args[0]})"
        raise DefaultCredentialsError(f"{reason}: {_REMEDY}") from None
    return credentials
