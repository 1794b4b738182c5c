"""Identity tokens: who the caller is, for a Cloud Run service that does not let everybody in."""

from typing import Final

from google.auth import compute_engine, external_account, impersonated_credentials
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.auth.transport.requests import Request
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as UserCredentials

_REMEDY: Final = "run `gcloud auth application-default login`, or use a service account"


def identity_token(credentials: Credentials, audience: str) -> str:
    """A token that says who the credentials belong to. Empty for anonymous credentials.

    Args:
        audience: Address of the service that gets the token. A person's token is for Google's own client
            instead, which Cloud Run accepts (assumption adc-identity-token).

    Raises:
        DefaultCredentialsError: When such credentials have no identity token.
        GoogleAuthError: When Google does not accept the credentials.
    """
    if isinstance(credentials, AnonymousCredentials):
        return ""
    request = Request()
    if isinstance(credentials, UserCredentials):
        return _of_person(credentials, request)
    issuer = _issuer(credentials, audience, request)
    issuer.refresh(request)
    return str(issuer.token)


def _of_person(credentials: UserCredentials, request: Request) -> str:
    # With the scopes of the calls, Google would leave the identity token out.
    person = UserCredentials(
        token=None,
        refresh_token=credentials.refresh_token,
        token_uri=credentials.token_uri,
        client_id=credentials.client_id,
        client_secret=credentials.client_secret,
    )
    person.refresh(request)
    if not person.id_token:
        raise RefreshError(f"Google gives no identity token for this login: {_REMEDY}")
    return str(person.id_token)


def _issuer(credentials: Credentials, audience: str, request: Request) -> Credentials:
    """Credentials whose tokens are identity tokens of the same account."""
    if isinstance(credentials, external_account.Credentials) and credentials.service_account_email:
        credentials = credentials._initialize_impersonated_credentials()
    if isinstance(credentials, impersonated_credentials.Credentials):
        return impersonated_credentials.IDTokenCredentials(credentials, audience, include_email=True)
    if isinstance(credentials, service_account.Credentials):
        return service_account.IDTokenCredentials(
            credentials.signer, credentials.service_account_email, credentials._token_uri, audience
        )
    if isinstance(credentials, compute_engine.Credentials):
        return compute_engine.IDTokenCredentials(request, audience, use_metadata_identity_endpoint=True)
    raise DefaultCredentialsError(f"an access token says nothing about who you are: {_REMEDY}")
