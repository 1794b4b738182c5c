"""Which configuration a rehearsal runs with, and which engine."""

from pathlib import Path

import pulumi.automation as automation
import pytest

from engine import lookup, project
from engine.errors import EngineError

STACK = "a4-ray"


def test_stand_ins_fill_exactly_what_the_stack_file_leaves_out() -> None:
    found = project.configuration(STACK, {})
    assert found.stood_in == [
        "gcp:project",
        "llm-stacks:hfToken",
        "llm-stacks:capacity.reservation",
    ]
    assert found.plain["gcp:region"] == "us-central1"


def test_the_token_is_a_secret_and_never_plain() -> None:
    for overrides in ({}, {"hfToken": "hf_mine"}):
        found = project.configuration(STACK, overrides)
        assert list(found.secret) == ["llm-stacks:hfToken"]
        assert "llm-stacks:hfToken" not in found.plain


def test_an_override_needs_no_stand_in() -> None:
    found = project.configuration(STACK, {"imageUri": "mine", "gcp:project": "p"})
    assert found.plain["llm-stacks:imageUri"] == "mine"
    assert found.plain["gcp:project"] == "p"
    assert set(found.stood_in) == {"llm-stacks:hfToken", "llm-stacks:capacity.reservation"}


def test_a_reservation_stands_in_only_where_one_is_used() -> None:
    found = project.configuration(STACK, {"capacity.type": "spot"})
    assert "llm-stacks:capacity.reservation" not in found.plain


def test_no_token_stands_in_where_none_is_needed() -> None:
    found = project.configuration("tpu-maxtext", {})
    assert found.stood_in == ["gcp:project"]


def test_a_value_that_is_encrypted_in_the_stack_file_is_stood_in_for(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.mine.yaml").write_text(
        "config:\n  gcp:project: p\n  llm-stacks:hfToken:\n    secure: v1:abc\nencryptionsalt: v1:def\n"
    )
    found = project.configuration("mine", {}, tmp_path)
    assert "llm-stacks:hfToken" in found.stood_in
    assert found.plain["gcp:project"] == "p"


def test_an_override_is_key_and_value() -> None:
    assert project.parse_override("a.b=c=d") == ("a.b", "c=d")
    with pytest.raises(EngineError, match="write key=value"):
        project.parse_override("a.b")


def test_an_unknown_stack_is_refused_with_the_known_ones() -> None:
    with pytest.raises(EngineError, match="no stack a5-ray; known: .*a4-ray"):
        project.require_stack("a5-ray")


# The engine


class Command:
    """Stands in for the SDK's command and remembers where it was looked for."""

    def __init__(self, root: str | None = None) -> None:
        self.command = f"{root or 'PATH'}/bin/pulumi"
        self.version = None

    @classmethod
    def install(cls, root: str) -> "Command":
        raise OSError("no route to get.pulumi.com")


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on PATH and no engine yet; returns where one would be put."""
    monkeypatch.setattr(automation, "PulumiCommand", Command)
    monkeypatch.setattr(lookup, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(lookup.shutil, "which", lambda name: None)
    return tmp_path / ".tools"


def test_the_engine_on_the_path_comes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert lookup.find(print).command == "PATH/bin/pulumi"


def test_an_engine_got_earlier_is_used_again(bare_machine: Path) -> None:
    (bare_machine / "bin").mkdir(parents=True)
    (bare_machine / "bin" / "pulumi").touch()
    assert lookup.find(print).command == f"{bare_machine}/bin/pulumi"


def test_without_download_and_without_go_the_message_says_what_to_install(bare_machine: Path) -> None:
    said: list[str] = []
    with pytest.raises(EngineError, match="no Go .* to build it with; install either"):
        lookup.find(said.append)
    assert any("no route to get.pulumi.com" in line for line in said)


def test_a_failed_build_shows_why_and_leaves_no_engine(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho cannot compile >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(lookup.shutil, "which", lambda name: str(go) if name == "go" else None)
    with pytest.raises(EngineError, match="cannot compile"):
        lookup.find(lambda text: None)
    assert list((bare_machine / "bin").iterdir()) == []


def test_a_build_is_pinned_and_put_where_it_is_found_again(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\necho "$@" > "$GO_ARGUMENTS"\nfor a; do [ "$p" = -o ] && : > "$a"; p=$a; done\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("GO_ARGUMENTS", str(tmp_path / "arguments"))
    monkeypatch.setattr(lookup.shutil, "which", lambda name: str(go) if name == "go" else None)
    assert lookup.find(lambda text: None).command == f"{bare_machine}/bin/pulumi"
    assert (bare_machine / "bin" / "pulumi").exists()
    assert "version.Version=v3." in (tmp_path / "arguments").read_text()
