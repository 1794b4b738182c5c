"""The programs of the control plane, built from the Go modules that tools/ pins.

Built once into the ignored `.tools/`, with the files of Kueue's and kwok's modules that are needed at
run time beside them, so that Go's module cache need not stay.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.lookup import TOOLS, Log
from rehearsal.errors import RehearsalError

_MODULES: Final = TOOLS.parent / "tools"
_BIN: Final = TOOLS / "bin"
_GO_MISSING: Final = (
    "the local control plane is built with Go (1.26 or newer), and there is no go on PATH; "
    "install it: https://go.dev/dl/"
)


@dataclass(frozen=True, kw_only=True)
class _Tool:
    """A Go module under tools/ and what is taken from it.

    Args:
        folder: Its folder under tools/.
        module: The module that it pins.
        commands: Name of each program and its package.
        minutes: How long building takes on 2 cores, about.
        files: Folder or file of the module, and where under `.tools/` its copy goes.
        version_variable: Variable that the linker sets to the pinned version.
    """

    folder: str
    module: str
    commands: dict[str, str]
    minutes: int
    files: dict[str, str]
    version_variable: str = ""


_KUEUE_FILES: Final = {
    "config/components/crd/bases": "kueue/crds",
    "config/components/webhook/manifests.yaml": "kueue/webhooks.yaml",
    "charts/kueue/values.yaml": "kueue/values.yaml",
    "charts/kueue/Chart.yaml": "kueue/Chart.yaml",
}
_STAGES: Final = {
    f"kustomize/stage/{path}.yaml": f"kwok/{path.rpartition('/')[2]}.yaml"
    for path in (
        "node/fast/node-initialize",
        "pod/fast/pod-ready",
        "pod/fast/pod-complete",
        "pod/fast/pod-delete",
    )
}
_TOOLS: Final = (
    _Tool(
        folder="etcd",
        module="go.etcd.io/etcd/server/v3",
        commands={"etcd": "go.etcd.io/etcd/server/v3"},
        minutes=1,
        files={},
    ),
    _Tool(
        folder="kubernetes",
        module="k8s.io/kubernetes",
        commands={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        minutes=6,
        files={},
        version_variable="k8s.io/component-base/version.gitVersion",
    ),
    _Tool(
        folder="kwok",
        module="sigs.k8s.io/kwok",
        commands={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        minutes=1,
        files=_STAGES,
    ),
    _Tool(
        folder="kueue",
        module="sigs.k8s.io/kueue",
        commands={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
        minutes=4,
        files=_KUEUE_FILES,
    ),
)


def path_of(command: str) -> Path:
    """Where a built program lies."""
    return _BIN / command


def file(path: str) -> Path:
    """Where the copy of a module's file lies, `kueue/values.yaml`."""
    return TOOLS / path


def missing() -> list[str]:
    """The folders under tools/ of which something is not built."""
    return [tool.folder for tool in _TOOLS if not _is_built(tool)]


def obtainable() -> str:
    """Why the programs cannot be had on this machine; empty when they can."""
    return _GO_MISSING if missing() and not shutil.which("go") else ""


def build(log: Log) -> None:
    """Builds what is missing; of two processes at once one builds and the other waits for it.

    Args:
        log: Told what is built and about how long it takes.

    Raises:
        RehearsalError: When there is no Go, or a build fails.
    """
    if not missing():
        return
    if not shutil.which("go"):
        raise RehearsalError(_GO_MISSING)
    with _only_builder(log):
        wanted = [tool for tool in _TOOLS if not _is_built(tool)]
        minutes = sum(tool.minutes for tool in wanted)
        if wanted:
            names = ", ".join(tool.folder for tool in wanted)
            log(f"building {names} with Go into {_BIN}; takes about {minutes} min on 2 cores, once")
        for tool in wanted:
            _build(tool, log)


def _is_built(tool: _Tool) -> bool:
    """Whether it is there, and of the pinned version: an upgrade of tools/ builds anew."""
    stamp = TOOLS / f"{tool.folder}.version"
    parts = [*map(path_of, tool.commands), *map(file, tool.files.values())]
    return (
        stamp.exists() and stamp.read_text() == _pinned_version(tool) and all(part.exists() for part in parts)
    )


def _build(tool: _Tool, log: Log) -> None:
    log(f"building {tool.folder} {_pinned_version(tool)}: {', '.join(tool.commands)}")
    flags = "-s -w"
    if tool.version_variable:
        flags += f" -X {tool.version_variable}={_pinned_version(tool)}"
    for name, package in tool.commands.items():
        with _unfinished(path_of(name)) as target:
            _go(tool, ["build", "-trimpath", "-ldflags", flags, "-o", str(target), package])
    if tool.files:
        root = Path(_go(tool, ["list", "-mod=mod", "-m", "-f", "{{.Dir}}", tool.module]).strip())
        for source, copy in tool.files.items():
            with _unfinished(file(copy)) as target:
                _copy(root / source, target)
    # Written last: without it nothing of the tool counts as built.
    with _unfinished(TOOLS / f"{tool.folder}.version") as stamp:
        stamp.write_text(_pinned_version(tool))


def _go(tool: _Tool, arguments: Sequence[str]) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=_MODULES / tool.folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RehearsalError(f"building {tool.folder} failed:\n{done.stderr.strip()}")
    return done.stdout


def _pinned_version(tool: _Tool) -> str:
    """The version that the module file under tools/ requires."""
    path = _MODULES / tool.folder / "go.mod"
    for line in path.read_text().splitlines():
        words = line.removeprefix("require ").split()
        if words[:1] == [tool.module]:
            return words[1]
    raise RehearsalError(f"{path} does not require {tool.module}")


@contextmanager
def _unfinished(target: Path) -> Generator[Path]:
    """A place to write what becomes `target` in one step, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    place = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield place
        if target.is_dir():
            shutil.rmtree(target)
        place.replace(target)
    finally:
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copies a file or the files of a folder; the module cache is read-only, the copy need not be."""
    if source.is_dir():
        target.mkdir()
        for each in source.iterdir():
            shutil.copyfile(each, target / each.name)
    else:
        shutil.copyfile(source, target)


@contextmanager
def _only_builder(log: Log) -> Generator[None]:
    """Holds the folder of the tools; the lock leaves no file behind and dies with the process."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    handle = os.open(TOOLS, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"another process is building into {TOOLS}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
