"""Identity tokens of every kind of credentials."""

import json
from typing import Any

import pytest
from google.auth import compute_engine, impersonated_credentials
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as UserCredentials

from cloud import identity_token as module
from cloud.credentials import AccessToken
from cloud.identity_token import identity_token

SERVICE, ACCOUNT = "https://service.example", "deployer@my-project.iam.gserviceaccount.com"
PERSON = UserCredentials(
    token=None,
    refresh_token="x",
    token_uri="https://google.example/token",
    client_id="me",
    client_secret="x",
    scopes=["https://www.googleapis.com/auth/cloud-platform"],
)


class Google:
    """A transport that notes what it sends and answers with a login's tokens."""

    def __init__(self, **tokens: str) -> None:
        self.status, self.headers, self.sent = 200, {}, ""
        self.data = json.dumps({"access_token": "a", "expires_in": 3600, **tokens}).encode()

    def __call__(self, *, body: Any = b"", **_: Any) -> "Google":
        self.sent = body.decode()
        return self


def test_a_persons_token_comes_with_the_login_and_not_with_the_scopes_of_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    google = Google(id_token="me")
    monkeypatch.setattr(module, "Request", lambda: google)
    assert identity_token(PERSON, SERVICE) == "me"
    assert "refresh_token=x" in google.sent and "scope" not in google.sent


def test_a_login_without_an_identity_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Request", lambda: Google())
    with pytest.raises(RefreshError, match="gives no identity token for this login: run `gcloud auth"):
        identity_token(PERSON, SERVICE)


def impersonated() -> Credentials:
    return impersonated_credentials.Credentials(
        AccessToken("t"), target_principal=ACCOUNT, target_scopes=["a"], delegates=[]
    )


@pytest.mark.parametrize(
    ("credentials", "issuer"),
    [
        (impersonated(), impersonated_credentials.IDTokenCredentials),
        (
            service_account.Credentials(None, ACCOUNT, "https://google.example/token"),
            service_account.IDTokenCredentials,
        ),
    ],
)
def test_an_accounts_token_is_for_the_service(
    credentials: Credentials, issuer: type[Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refresh(self: Any, _request: Any) -> None:
        self.token = f"for {self._target_audience}"

    monkeypatch.setattr(issuer, "refresh", refresh)
    assert identity_token(credentials, SERVICE) == f"for {SERVICE}"


def test_a_machines_token_comes_from_its_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def refresh(self: Any, _request: Any) -> None:
        assert self._use_metadata_identity_endpoint
        self.token = f"for {self._target_audience}"

    about = {"email": ACCOUNT}
    monkeypatch.setattr(compute_engine._metadata, "get_service_account_info", lambda _request: about)
    monkeypatch.setattr(compute_engine.IDTokenCredentials, "refresh", refresh)
    assert identity_token(compute_engine.Credentials(), SERVICE) == f"for {SERVICE}"


def test_an_access_token_has_no_identity() -> None:
    with pytest.raises(DefaultCredentialsError, match="an access token says nothing about who you are: run"):
        identity_token(AccessToken("t"), SERVICE)


def test_a_local_server_gets_no_token() -> None:
    assert identity_token(AnonymousCredentials(), SERVICE) == ""
