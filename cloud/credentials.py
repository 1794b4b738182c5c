"""Whose credentials Google is asked with: the same that Pulumi's provider for Google Cloud uses.

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

# The settings of a stack that say whose credentials are used, as the provider names them.
ACCESS_TOKEN: Final = "gcp:accessToken"
CREDENTIALS: Final = "gcp:credentials"
IMPERSONATED: Final = "gcp:impersonateServiceAccount"
DELEGATES: Final = "gcp:impersonateServiceAccountDelegates"
SETTINGS: Final = (ACCESS_TOKEN, CREDENTIALS, IMPERSONATED, DELEGATES)
# The variables of the environment that stand for them.
TOKEN_VARIABLE: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"
_KEY_VARIABLES: Final = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")
_IMPERSONATED_VARIABLE: Final = "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"

# What the library says when it has found none at all.
_NONE: Final = "Your default credentials were not found."
_REMEDY: Final = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a file of some"
)
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)


@dataclass(frozen=True, kw_only=True)
class CredentialSettings:
    """What a stack's configuration says of credentials; empty where it leaves that to the environment.

    Args:
        access_token: An access token.
        credentials: A file with a key or another kind of credentials, or its content.
        impersonated: Address of the service account to act as.
        delegates: Service accounts on the way to it.
    """

    access_token: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    impersonated: str = ""
    delegates: Sequence[str] = ()

    @classmethod
    def read(cls, value_of: Callable[[str], Any]) -> "CredentialSettings":
        """Those of a configuration, given the function that has the value of a key such as `gcp:project`."""
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
    """The provider's credentials, or none at all for a server that is not Google's.

    They are looked for where the provider looks, in its order: the stack's settings, the variables of the
    environment that stand for these, Application Default Credentials; then they act as the service account
    that is to be impersonated. Nothing is sent to Google.

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
    token, key = settings.access_token, settings.credentials
    if not token and not key:
        token, key = _variable(TOKEN_VARIABLE), _variable(*_KEY_VARIABLES)
    found = AccessToken(token) if token else _of_key(key) if key else _default()
    if account := settings.impersonated or _variable(_IMPERSONATED_VARIABLE):
        return impersonated_credentials.Credentials(
            found, target_principal=account, target_scopes=_SCOPES, delegates=list(settings.delegates)
        )
    if project and isinstance(found, UserCredentials) and not found.quota_project_id:
        # Some APIs reject a person's credentials that name no project.
        return found.with_quota_project(project)
    return found


class AccessToken(Credentials):
    """An access token that somebody else has fetched, and must renew."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: Any) -> None:
        """Says that it cannot be renewed: the library calls this when Google rejects the token."""
        raise RefreshError(
            f"the access token of {ACCESS_TOKEN} or {TOKEN_VARIABLE} is not accepted, or no longer: set a "
            "new one, or remove it to use Application Default Credentials"
        )


def _variable(*names: str) -> str:
    return next((text for name in names if (text := os.environ.get(name))), "")


def _of_key(text: str) -> Credentials:
    """Those of a file, or of its content.

    Raises:
        DefaultCredentialsError: When it is neither; the message does not show what may be a key.
    """
    try:
        path = Path(text).expanduser()
        if not text.lstrip().startswith("{"):
            text = path.read_text()
        with warnings.catch_warnings():
            # It warns of credentials that come from somebody else; these are the user's own.
            warnings.simplefilter("ignore", DeprecationWarning)
            found, _ = google.auth.load_credentials_from_dict(json.loads(text), scopes=_SCOPES)
    except (DefaultCredentialsError, OSError, ValueError, AttributeError, TypeError, RuntimeError) as error:
        raise DefaultCredentialsError(
            f"{CREDENTIALS} or {_KEY_VARIABLES[0]} is neither a file of credentials nor the content of one "
            f"({type(error).__name__}): {_REMEDY}"
        ) from None
    return found


def _default() -> Credentials:
    try:
        found, _ = google.auth.default(scopes=_SCOPES)
    # The library does not expect every file that may be named to it.
    except (DefaultCredentialsError, OSError, AttributeError, TypeError) as error:
        trouble = "there are no Application Default Credentials"
        if not str(error).startswith(_NONE):
            trouble = f"the file of the Application Default Credentials cannot be used ({error.args[0]})"
        raise DefaultCredentialsError(f"{trouble}: {_REMEDY}") from None
    return found
