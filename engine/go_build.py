"""Builds the programs of the Go modules that tools/ pins.

Each program is built once, into the ignored `.tools/bin`. Files of a module that are needed at run time are
copied there too, so Go's module cache need not stay.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.build_progress import BuildProgress
from engine.errors import EngineError
from engine.lock import held

Log = Callable[[str], None]

TOOLS: Final = Path(__file__).resolve().parents[1] / ".tools"
_MODULES: Final = TOOLS.parent / "tools"
# How Go's line about a download begins.
_DOWNLOAD: Final = "go: downloading "
# The end of the messages of Go's compiler, linker and downloads.
_FULL_DISK: Final = "no space left on device"
# An upper limit: .tools/ and Go's caches took 13.4 GB on 2026-11-25, after all builds and one of another
# project.
_DISK_GB: Final = 14


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A Go module under tools/, with its programs and files that this project uses.

    Args:
        folder: Its folder under tools/.
        minutes: How long a first build takes on two idle cores. It is an estimated share of the 10 minutes
            that all modules of the control plane took. Packages that modules share count once.
        module: The module that the folder pins.
        commands: The package of each program, by the program's name.
        files: The path of a copy under `.tools/`, by the folder or file of the module.
        files_of_others: The same for modules that this one depends on, by their names.
        version_variable: Variable that the linker sets to the pinned version.
        tags: Build tags with commas between them.
    """

    folder: str
    minutes: float
    module: str
    commands: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    files_of_others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    version_variable: str = ""
    tags: str = ""

    @property
    def version(self) -> str:
        """The version that tools/ pins."""
        lines = (_MODULES / self.folder / "go.mod").read_text().splitlines()
        requirements = [line.removeprefix("require ").split() for line in lines]
        return next(words[1] for words in requirements if words[:1] == [self.module])

    @property
    def is_built(self) -> bool:
        """Whether all programs and files exist in the pinned version. An upgrade of tools/ builds again."""
        copies = [copy for _, files in self._files for copy in files.values()]
        parts = [*map(path_of, self.commands), *(TOOLS / copy for copy in copies)]
        stamp = self._stamp
        return stamp.exists() and stamp.read_text() == self.version and all(part.exists() for part in parts)

    def build(self, progress: BuildProgress) -> None:
        """Builds the module, whole or not at all.

        Raises:
            EngineError: If the build fails, with Go's message.
        """
        flags = "-s -w"
        if self.version_variable:
            flags += f" -X {self.version_variable}={self.version}"
        packages = self._packages(progress)
        compiled: set[str] = set()

        # Go names only what its cache lacks. A program's own package comes last, before its linking.
        def count(package: str) -> None:
            compiled.add(package)
            if package in self.commands.values():
                progress.show(f"{self.folder}: linking")
                return
            step = f"{self.folder}: {len(compiled)} of {len(packages)} packages"
            progress.show(step, len(compiled) / len(packages))

        for name, package in self.commands.items():
            with _unfinished(path_of(name)) as target:
                options = ["-v", "-trimpath", "-tags", self.tags, "-ldflags", flags]
                self._go(["build", *options, "-o", str(target), package], packages, count)
        for module, files in self._files:
            root = Path(json.loads(self._go(["mod", "download", "-json", module]))["Dir"])
            for source, copy in files.items():
                with _unfinished(TOOLS / copy) as target:
                    _copy(root / source, target)
        # This file is written last: without it the module does not count as built.
        with _unfinished(self._stamp) as stamp:
            stamp.write_text(self.version)

    @property
    def _files(self) -> list[tuple[str, Mapping[str, str]]]:
        """The modules of which files are copied, with these files."""
        own = [(self.module, self.files)] if self.files else []
        return [*own, *self.files_of_others.items()]

    @property
    def _stamp(self) -> Path:
        return TOOLS / f"{self.folder}.version"

    def _packages(self, progress: BuildProgress) -> set[str]:
        """The packages that the programs consist of. Downloads the modules that they need."""
        downloads: list[str] = []

        def count(line: str) -> None:
            downloads.append(line)
            progress.show(f"{self.folder}: {len(downloads)} modules downloaded")

        arguments = ["list", "-deps", "-tags", self.tags, *self.commands.values()]
        return set(self._go(arguments, on_step=count).split())

    def _go(
        self,
        arguments: Sequence[str],
        steps: Collection[str] = (),
        on_step: Callable[[str], None] = lambda step: None,
    ) -> str:
        """What a command of Go prints.

        Args:
            arguments: The command.
            steps: Lines of the error stream that are no errors: names of packages. Without them, downloads.
            on_step: Receives such a line.

        Raises:
            EngineError: If the command fails, with what it says besides the steps.
        """
        errors: list[str] = []
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                ["go", *arguments],
                cwd=_MODULES / self.folder,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
            )
            with process:
                try:
                    for line in map(str.rstrip, process.stderr or ()):
                        is_step = line in steps if steps else line.startswith(_DOWNLOAD)
                        on_step(line) if is_step else errors.append(line)
                except BaseException:
                    process.kill()
                    raise
            output.seek(0)
            printed = output.read()
        if process.returncode:
            message = "\n".join(errors).strip() or printed.strip()
            raise EngineError(f"building {self.folder} failed{_reason(message)}")
        return printed


def path_of(command: str) -> Path:
    """The path of a built program."""
    return TOOLS / "bin" / command


def missing(modules: Sequence[GoModule]) -> str:
    """A remedy if a module is not built and cannot be. Empty if all are built or can be."""
    if all(module.is_built for module in modules) or shutil.which("go"):
        return ""
    return "there is no go on PATH to build it with; install Go 1.26 or newer: https://go.dev/dl/"


def build(modules: Sequence[GoModule], log: Log) -> None:
    """Builds the modules that are not built. A second process waits for the first one to build them.

    Args:
        modules: The modules that are needed.
        log: Receives a line before each build, which says how long all of them take. Where no terminal shows
            the progress, it receives a line of it every 30 seconds.

    Raises:
        EngineError: If there is no Go, or a build fails.
    """
    if all(module.is_built for module in modules):
        return
    if problem := missing(modules):
        raise EngineError(problem)
    with held(TOOLS, lambda: log(f"another process is building into {TOOLS}; waiting for it")):
        unbuilt = [module for module in modules if not module.is_built]
        minutes = max(1, round(sum(module.minutes for module in unbuilt)))
        for number, module in enumerate(unbuilt, 1):
            programs = ", ".join(module.commands)
            place = f"{number} of {len(unbuilt)}, about {minutes} minutes in all on two idle cores"
            log(f"building {programs} ({module.folder} {module.version}) with Go into {TOOLS}: {place}")
            progress = BuildProgress(log=log)
            try:
                module.build(progress)
            finally:
                progress.end()


def _reason(output: str) -> str:
    """The end of the sentence that a build failed: one line for a full disk, else Go's whole output."""
    if _FULL_DISK not in output:
        return f":\n{output}"
    cache = os.environ.get("GOCACHE", "~/.cache/go-build")
    return f": {_FULL_DISK}; programs and Go's caches ({cache}, ~/go/pkg/mod) need up to {_DISK_GB} GB"


@contextmanager
def _unfinished(target: Path) -> Generator[Path]:
    """A path beside `target` to write to. Without an error it becomes `target` at the end, in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield draft
        if target.is_dir():
            shutil.rmtree(target)
        draft.replace(target)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft)
        draft.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copies a file or a whole folder. Unlike the module cache, the copy is not read-only."""
    if source.is_dir():
        target.mkdir()
        for path in source.iterdir():
            _copy(path, target / path.name)
    else:
        shutil.copyfile(source, target)
