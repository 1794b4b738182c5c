"""Where `preflight` has the stack's Hugging Face token from, and that it stays there."""

from functools import partial
from pathlib import Path

import pytest

from engine import lookup
from engine.project import project_name, stack_file
from operations.checks import hub
from operations.errors import OperationError

TOKEN = "hf_planted_in_a_test"
STACK = "mine"


def test_the_token_is_the_stacks_own_decrypted_with_its_passphrase_and_not_the_shells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real engine in a project of its own."""
    (tmp_path / "state").mkdir()
    (tmp_path / "Pulumi.yaml").write_text(f"name: {project_name()}\nruntime: python\n")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/state")
    monkeypatch.setenv("PULUMI_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "right")
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_shell")
    monkeypatch.setattr(hub, "ROOT", tmp_path)
    monkeypatch.setattr(hub, "stack_file", partial(stack_file, checkout=tmp_path))
    engine = lookup.find(print)
    engine.output(["stack", "init", STACK], tmp_path)
    with pytest.raises(OperationError, match="the stack has no hfToken"):
        hub.read_token(STACK)
    engine.output(["config", "set", "--secret", "hfToken", "--stack", STACK], tmp_path, text=f"{TOKEN}\n")
    assert TOKEN not in (tmp_path / f"Pulumi.{STACK}.yaml").read_text()
    assert hub.read_token(STACK) == TOKEN
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "wrong")
    with pytest.raises(OperationError, match="could not be decrypted here"):
        hub.read_token(STACK)
