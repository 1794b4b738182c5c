"""Where the programs come from: their publisher, here a server on this machine, or else Go."""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import go_build
from engine.errors import EngineError
from engine.go_build import GoModule, Log
from rehearsal.control_plane import programs
from rehearsal.loopback import LoopbackServer, Request

WANTED = [module for module in programs.MODULES if module.published]
NAMES = {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
SCRIPT = b"#!/bin/sh\necho published\n"


class Publisher(LoopbackServer):
    """Files and digests as Kubernetes publishes them.

    Attributes:
        digest: Put in place of every digest, where it is not empty.
        lacks: What the addresses of files end with that are not there.
    """

    digest = ""
    lacks = "nothing"

    def serve(self, request: Request) -> None:
        name, answer = request.path.rpartition("/")[2], b""
        if name in NAMES:
            answer = SCRIPT
        elif name.removesuffix(".sha256") in NAMES:
            answer = f"{self.digest or hashlib.sha256(SCRIPT).hexdigest()}\n".encode()
        request.answer(200 if answer and not name.endswith(self.lacks) else 404, answer)


@pytest.fixture
def publisher(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """The publisher that kwokctl is pointed to, on a machine where only kwokctl is built."""
    go_build.build(programs.MODULES, log)
    there = tmp_path / "tools"
    (there / "bin").mkdir(parents=True)
    (there / "bin" / "kwokctl").symlink_to(go_build.path_of("kwokctl"))
    monkeypatch.setattr(go_build, "TOOLS", there)
    with Publisher() as server:
        monkeypatch.setenv("KWOK_KUBE_BINARY_PREFIX", f"{server.address}/release")
        yield server


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Go was asked to build."""
    asked: list[str] = []
    monkeypatch.setattr(GoModule, "build", lambda module: asked.append(module.folder))
    return asked


def test_what_its_publisher_has_is_downloaded_and_runs(publisher: Publisher, compiled: list[str]) -> None:
    go_build.build(WANTED, print)
    assert {name for module in WANTED for name in module.commands} == NAMES
    for name in NAMES:
        assert subprocess.check_output([go_build.path_of(name)], text=True) == "published\n"
    go_build.build(WANTED, pytest.fail)  # all of it is there
    assert compiled == []


def test_a_file_that_is_not_the_released_one_is_refused(publisher: Publisher, compiled: list[str]) -> None:
    publisher.digest = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(EngineError, match="is not what its publisher released"):
        go_build.build(WANTED, print)
    assert [path.name for path in (go_build.TOOLS / "bin").iterdir()] == ["kwokctl"]
    assert compiled == []


@pytest.mark.parametrize("lacks", ["kube-scheduler", ".sha256"])
def test_what_cannot_be_downloaded_is_built(publisher: Publisher, compiled: list[str], lacks: str) -> None:
    publisher.lacks = lacks
    said: list[str] = []
    go_build.build(WANTED, said.append)
    assert compiled == [module.folder for module in WANTED if not module.is_built] != []
    assert any(text.startswith("not downloaded: ") for text in said)


def test_what_go_cannot_download_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go_build, "TOOLS", tmp_path)
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    with pytest.raises(EngineError, match=r"building kuberay failed:\n(.|\n)*GOPROXY=off"):
        programs.KUBERAY.build()
