"""Finding the Pulumi engine, and building it."""

import shutil
from pathlib import Path

import pulumi.automation as automation
import pytest
import semver

from engine import go_build, lookup
from engine.build_progress import BuildProgress
from engine.errors import EngineError
from engine.go_build import GoModule
from tests.operations.fake_pulumi import FakePulumi


class Command:
    """A stub of the SDK's command. It remembers the folder in which it was looked for."""

    def __init__(self, root: str | None = None, skip_version_check: bool = False) -> None:
        self.command = f"{root or 'PATH'}/bin/pulumi"
        self.version = semver.VersionInfo(3, 999)

    @classmethod
    def install(cls, root: str) -> "Command":
        raise OSError("no route to get.pulumi.com")


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on PATH and without an engine. Returns the folder for a new one."""
    monkeypatch.setattr(automation, "PulumiCommand", Command)
    monkeypatch.setattr(go_build, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return tmp_path / ".tools"


def test_the_engine_on_the_path_comes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert lookup.find(print).command == "PATH/bin/pulumi"


def test_an_old_engine_on_the_path_is_rejected_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakePulumi(tmp_path, version="v3.100.0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(
        EngineError, match=r"pulumi is version 3\.100\.0, and 3\..* or newer is needed; https://"
    ):
        lookup.find(print)


def test_what_the_engine_refuses_is_told_and_a_secret_goes_in_by_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulumi = FakePulumi(tmp_path)
    pulumi.answer(**{"stack export": ("", "error: no such stack", 255)})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    engine = lookup.find(print)
    with pytest.raises(EngineError, match=r"^pulumi stack export: error: no such stack$"):
        engine.output(["stack", "export", "--stack", "x"], tmp_path)
    engine.output(["config", "set", "--secret", "k"], tmp_path, text="a secret")
    assert (pulumi.runs[1].call, pulumi.runs[1].text) == (["config", "set", "--secret", "k"], "a secret")


def test_an_engine_got_earlier_is_used_again(bare_machine: Path) -> None:
    (bare_machine / "bin").mkdir(parents=True)
    (bare_machine / "bin" / "pulumi").touch()
    assert lookup.find(print).command == f"{bare_machine}/bin/pulumi"


def test_without_download_and_without_go_the_message_says_what_to_install(bare_machine: Path) -> None:
    lines: list[str] = []
    with pytest.raises(EngineError, match="no go on PATH to build it with; install Go"):
        lookup.find(lines.append)
    assert any("no route to get.pulumi.com" in line for line in lines)


def test_a_failed_build_shows_why_and_leaves_no_engine(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\n[ $1 = list ] || { echo cannot compile >&2; exit 1; }\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(shutil, "which", lambda name: str(go) if name == "go" else None)
    with pytest.raises(EngineError, match="cannot compile"):
        lookup.find(lambda text: None)
    assert list((bare_machine / "bin").iterdir()) == []
    assert not (go_build.TOOLS / "pulumi.version").exists()


def test_a_full_disk_is_one_line_of_a_failed_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    line = "compile: writing output: write /tmp/go-build1/b99/_pkg_.a: no space left on device"
    go.write_text(
        f"#!/bin/sh\nfor n in $(seq 100); do echo '# k8s.io/api'; echo '{line}'; done >&2\nexit 1\n"
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(go_build, "TOOLS", tmp_path / ".tools")
    with pytest.raises(EngineError) as failure:
        module("kuberay").build(BuildProgress(log=print))
    text = str(failure.value)
    assert text.startswith("building kuberay failed: no space left on device; ") and "\n" not in text
    assert text.endswith(" GB")


def test_before_each_build_it_is_said_how_many_there_are_and_how_long_all_of_them_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_build, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(GoModule, "build", lambda _self, _progress: None)
    lines: list[str] = []
    go_build.build([module("kuberay", 2.5), module("etcd", 0.5)], lines.append)
    first, second = lines
    assert first.endswith(": 1 of 2, about 3 minutes in all on two idle cores")
    assert second.endswith(": 2 of 2, about 3 minutes in all on two idle cores")


def module(folder: str, minutes: float = 1) -> GoModule:
    """A module of tools/ with one program."""
    version = {"kuberay": "github.com/ray-project/kuberay/ray-operator", "etcd": "go.etcd.io/etcd/server/v3"}
    return GoModule(
        folder=folder, minutes=minutes, module=version[folder], commands={folder: version[folder]}
    )


def test_a_build_is_pinned_and_put_where_it_is_found_again(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\necho "$@" > "$GO_ARGUMENTS"\nfor a; do [ "$p" = -o ] && : > "$a"; p=$a; done\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("GO_ARGUMENTS", str(tmp_path / "arguments"))
    monkeypatch.setattr(shutil, "which", lambda name: str(go) if name == "go" else None)
    assert lookup.find(lambda text: None).command == f"{bare_machine}/bin/pulumi"
    assert (bare_machine / "bin" / "pulumi").exists()
    assert "version.Version=v3." in (tmp_path / "arguments").read_text()
