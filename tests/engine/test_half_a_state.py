"""A local state whose engine was killed while it wrote is opened again by what the message says."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import lookup
from engine.errors import EngineError

STACKS = ".pulumi/stacks/project"


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs the engine on a project with a stack in a local backend."""
    (tmp_path / "Pulumi.yaml").write_text("name: project\nruntime: yaml\n")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}/state")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "a passphrase")
    engine = lookup.find()

    def run(*words: str) -> str:
        return engine.output(list(words), tmp_path)

    run("stack", "init", "mine")
    return run


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


@pytest.mark.parametrize("size", [0, 20])
def test_half_of_the_attributes_are_deleted_and_nothing_is_lost(
    pulumi: Callable[..., str], tmp_path: Path, size: int
) -> None:
    state = pulumi("stack", "export", "--stack", "mine")
    attributes = tmp_path / "state" / STACKS / "mine.json.attrs"
    cut(attributes, size)
    with pytest.raises(EngineError, match=r"delete \.pulumi/stacks/PROJECT/STACK\.json\.attrs"):
        pulumi("stack", "export", "--stack", "mine")
    attributes.unlink()
    assert pulumi("stack", "export", "--stack", "mine") == state


@pytest.mark.parametrize("size", [0, 20])
def test_half_of_the_state_is_replaced_by_the_one_before(
    pulumi: Callable[..., str], tmp_path: Path, size: int
) -> None:
    folder = tmp_path / "state" / STACKS
    cut(folder / "mine.json", size)
    with pytest.raises(EngineError, match=r"copy \.pulumi/stacks/PROJECT/STACK\.json\.bak over STACK\.json"):
        pulumi("stack", "export", "--stack", "mine")
    shutil.copy(folder / "mine.json.bak", folder / "mine.json")
    pulumi("stack", "export", "--stack", "mine")


def test_another_error_is_told_as_the_engine_tells_it(pulumi: Callable[..., str]) -> None:
    with pytest.raises(EngineError) as raised:
        pulumi("stack", "export", "--stack", "another")
    assert "another" in str(raised.value) and "attrs" not in str(raised.value)
