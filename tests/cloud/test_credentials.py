"""Whose credentials are used: the provider's for Google Cloud, wherever a user has put them."""

import json
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.oauth2.credentials import Credentials as UserCredentials

from cloud.credentials import AccessToken, CredentialSettings, find_credentials

PERSON = {"type": "authorized_user", "client_id": "me", "client_secret": "x", "refresh_token": "x"}
TOKEN, KEY, ACCOUNT = "token-of-a-test", "secret-of-a-test", "deployer@my-project.iam.gserviceaccount.com"
IN_CONFIGURATION = {"gcp:accessToken": TOKEN}
IN_ENVIRONMENT = {"GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nobody has logged in."""
    for name in ("GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_CREDENTIALS", "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))


def settings(**values: Any) -> CredentialSettings:
    return CredentialSettings.read(lambda key: values.get(key.removeprefix("gcp:")))


@pytest.mark.parametrize(
    ("configured", "environment"),
    [(IN_CONFIGURATION, {}), ({}, IN_ENVIRONMENT), (IN_CONFIGURATION, {"GOOGLE_CREDENTIALS": "no key"})],
)
def test_an_access_token_is_used_and_nobody_logs_in(
    configured: dict[str, str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    credentials = find_credentials(None, "my-project", CredentialSettings.read(configured.get))
    assert isinstance(credentials, AccessToken) and credentials.token == TOKEN and credentials.valid
    with pytest.raises(RefreshError, match="is not accepted, or no longer: set a new one"):
        credentials.refresh(None)


def test_a_key_is_used_as_a_file_and_as_its_content_in_the_configuration_and_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.json").write_text(json.dumps(PERSON))
    credentials = [find_credentials(None, settings=settings(credentials=str(tmp_path / "key.json")))]
    credentials.append(find_credentials(None, settings=settings(credentials=json.dumps(PERSON))))
    monkeypatch.setenv("GOOGLE_CREDENTIALS", json.dumps(PERSON))
    credentials.append(find_credentials(None))
    assert [
        credential.client_id for credential in credentials if isinstance(credential, UserCredentials)
    ] == ["me"] * 3
    # What the configuration has goes before the environment.
    assert isinstance(find_credentials(None, settings=settings(accessToken=TOKEN)), AccessToken)


@pytest.mark.parametrize("wrong", [f"/nowhere/{KEY}", f"{{{KEY}", "[]", '{"private_key": 1}', "x" * 9999])
def test_what_is_no_key_is_told_and_not_shown(wrong: str) -> None:
    with pytest.raises(DefaultCredentialsError) as raised:
        find_credentials(None, settings=settings(credentials=wrong))
    assert str(raised.value).startswith(
        "gcp:credentials or GOOGLE_CREDENTIALS is neither a file of credentials"
    )
    assert "run `gcloud auth application-default login`" in str(raised.value)
    assert KEY not in str(raised.value) and KEY not in repr(settings(credentials=wrong, accessToken=KEY))


@pytest.mark.parametrize("where", ["configuration", "environment"])
def test_an_account_that_is_to_be_impersonated_is_whoever_else_has_logged_in(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated: dict[str, Any] = {"accessToken": TOKEN}
    if where == "environment":
        monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", ACCOUNT)
    else:
        stated |= {"impersonateServiceAccount": ACCOUNT, "impersonateServiceAccountDelegates": '["a@b"]'}
    credentials = find_credentials(None, "my-project", settings(**stated))
    assert isinstance(credentials, impersonated_credentials.Credentials)
    assert credentials.service_account_email == ACCOUNT
    assert isinstance(credentials._source_credentials, AccessToken)


def test_a_person_s_calls_count_against_the_stacks_project_unless_another_is_named(tmp_path: Path) -> None:
    for quota_project, counted in ((None, "my-project"), ("theirs", "theirs")):
        named = {"quota_project_id": quota_project} if quota_project else {}
        (tmp_path / "adc.json").write_text(json.dumps({**PERSON, **named}))
        assert find_credentials(None, "my-project").quota_project_id == counted


def test_a_server_on_plain_http_is_shown_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google.auth, "default", None)
    credentials = find_credentials("http://127.0.0.1:1/", "my-project", settings(accessToken=TOKEN))
    assert isinstance(credentials, AnonymousCredentials)
