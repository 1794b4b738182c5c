"""What the commands decrypt of a stack's configuration: the Hub's token, and credentials for Google."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cloud.credentials import CredentialSettings
from engine import lookup
from engine.project import project_name, stack_file
from operations.checks import hub
from operations.errors import OperationError
from operations.google import credentials

TOKEN = "hf_planted_in_a_test"
STACK = "mine"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets a setting of a stack of the real engine, in a project of its own."""
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text(f"name: {project_name()}\nruntime: python\n")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/state")
    monkeypatch.setenv("PULUMI_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "right")
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_shell")
    monkeypatch.setattr(credentials, "ROOT", tmp_path)
    monkeypatch.setattr(credentials, "stack_file", partial(stack_file, checkout=tmp_path))
    engine = lookup.find(print)
    engine.output(["stack", "init", STACK], tmp_path)
    engine.output(["config", "set", "gcp:project", "my-project", "--stack", STACK], tmp_path)

    def store(key: str, value: str, *options: str) -> None:
        engine.output(["config", "set", *options, key, "--stack", STACK], tmp_path, text=f"{value}\n")

    return store


def test_the_token_is_the_stacks_own_decrypted_with_its_passphrase_and_not_the_shells(
    store: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OperationError, match="the stack has no hfToken"):
        hub.read_token(STACK)
    store("hfToken", TOKEN, "--secret")
    assert TOKEN not in (tmp_path / f"Pulumi.{STACK}.yaml").read_text()
    assert hub.read_token(STACK) == TOKEN
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "wrong")
    with pytest.raises(OperationError, match="could not be decrypted here"):
        hub.read_token(STACK)


def test_commands_ask_google_with_the_credentials_that_the_stack_names(
    store: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert credentials.credential_settings(STACK) == CredentialSettings()
    store("gcp:accessToken", TOKEN, "--secret")
    store("gcp:impersonateServiceAccount", "deployer@my-project.iam.gserviceaccount.com")
    assert credentials.credential_settings(STACK) == CredentialSettings(
        access_token=TOKEN, impersonated="deployer@my-project.iam.gserviceaccount.com"
    )
    monkeypatch.setattr(credentials, "known_stacks", lambda: [STACK])
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "wrong")
    with pytest.raises(OperationError, match="the stack's gcp:accessToken could not be decrypted here"):
        credentials.clients_of(STACK, "my-project", None)
    # What answers in Google's place is shown none of them.
    assert credentials.clients_of(STACK, "my-project", "http://127.0.0.1:1").token() == ""
