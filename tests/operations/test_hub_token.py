"""Where `preflight` has the stack's Hugging Face token from, and that it stays there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine import lookup
from engine.project import project_name
from operations.checks import hub
from operations.errors import OperationError

TOKEN = "hf_planted_in_a_test"
STACK = "mine"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The real engine in a project of its own, whose secrets a passphrase protects."""
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text(f"name: {project_name()}\nruntime: python\n")
    for name, value in {
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_HOME": f"{tmp_path}/home",
        "PULUMI_CONFIG_PASSPHRASE": "right",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub, "ROOT", tmp_path)
    found = lookup.find(print)

    def run(*arguments: str, text: str = "") -> None:
        found.output(list(arguments), tmp_path, text=text)

    run("stack", "init", STACK)
    return run


def test_the_stacks_own_token_is_decrypted_with_its_passphrase(
    engine: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine("config", "set", "--secret", "hfToken", "--stack", STACK, text=TOKEN)
    assert TOKEN not in (tmp_path / f"Pulumi.{STACK}.yaml").read_text()
    assert hub.read_token(STACK) == TOKEN
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "wrong")
    with pytest.raises(OperationError, match="could not be decrypted here"):
        hub.read_token(STACK)


def test_the_environments_token_goes_first(
    engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OperationError, match="the stack has no hfToken"):
        hub.read_token(STACK)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert hub.read_token(STACK) == TOKEN
