"""A build of minutes shows how far it is, on a terminal and in a log."""

import io
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from engine import go_build
from engine.build_progress import BuildProgress
from engine.errors import EngineError
from engine.go_build import GoModule

ETCD = GoModule(
    folder="etcd",
    minutes=2,
    module="go.etcd.io/etcd/server/v3",
    commands={"etcd": "go.etcd.io/etcd/server/v3"},
)
# Lists 40 packages after two downloads, and compiles all but the first.
FAKE_GO = """#!/bin/sh
names=$(seq --format 'example.com/p%g' 40)
program=go.etcd.io/etcd/server/v3
case $1 in
list)
  echo 'go: downloading example.com/a v1.0.0' >&2
  echo 'go: downloading example.com/b v1.0.0' >&2
  printf '%s\\n' $names $program ;;
build)
  printf '%s\\n' $names $program | tail --lines +2 >&2
  for word; do [ "$last" = -o ] && : >"$word"; last=$word; done ;;
esac
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of Go."""
    program = tmp_path / "go"
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(go_build, "TOOLS", tmp_path / ".tools")
    return program


def progress(log: list[str], stream: io.StringIO, seconds: Iterator[float]) -> BuildProgress:
    return BuildProgress(log=log.append, stream=stream, clock=lambda: next(seconds))


def test_a_terminal_sees_every_step_on_one_line(go: Path) -> None:
    log: list[str] = []
    terminal = Terminal()
    build = progress(log, terminal, count(0, 1))
    ETCD.build(build)
    build.end()
    first, second, *compiled, last, cleared = terminal.getvalue().split("\r\x1b[K")[1:]
    assert (first, second) == (
        "  etcd: 1 modules downloaded after 0:01",
        "  etcd: 2 modules downloaded after 0:02",
    )
    assert len(compiled) == 39 and compiled[0] == "  etcd: 1 of 41 packages after 0:03"
    assert compiled[-1] == "  etcd: 39 of 41 packages after 0:41, less than a minute left"
    assert (last, cleared) == ("  etcd: linking after 0:42", "")
    assert "\n" not in terminal.getvalue() and not log


def test_a_log_has_a_line_of_progress_in_30_seconds(go: Path) -> None:
    log: list[str] = []
    stream = io.StringIO()
    build = progress(log, stream, count(0, 10))
    ETCD.build(build)
    build.end()
    times = [line.partition(" after ")[2].partition(",")[0] for line in log]
    assert times == [f"{second // 60}:{second % 60:02}" for second in range(30, 421, 30)]
    assert log[0] == "  etcd: 1 of 41 packages after 0:30"
    assert log[1] == "  etcd: 4 of 41 packages after 1:00"
    assert log[2] == "  etcd: 7 of 41 packages after 1:30, about 7 min left"
    assert not stream.getvalue()


def test_an_error_of_go_is_shown_without_the_names_of_packages(go: Path) -> None:
    failure_of_build = "[ $1 = list ] || { printf '# example.com/p7\\ncannot compile\\n' >&2; exit 1; }\n"
    go.write_text(FAKE_GO + failure_of_build)
    with pytest.raises(EngineError) as failure:
        ETCD.build(progress([], io.StringIO(), count(0, 1)))
    assert str(failure.value) == "building etcd failed:\n# example.com/p7\ncannot compile"
