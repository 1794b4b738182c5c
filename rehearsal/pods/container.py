"""A container's process in its sandbox."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.pods.network import start

_BWRAP: Final = (
    "bwrap --die-with-parent --as-pid-1 --cap-drop ALL --unshare-user --unshare-pid --unshare-ipc "
    "--unshare-uts --proc /proc --dev /dev --dir /tmp"
)
_ENTER: Final = "nsenter --user --mount --pid --net --preserve-credentials"
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
_MESSAGE_LINES, _MESSAGE_CHARACTERS = 80, 2048


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """The sandbox of a container's process.

    Args:
        command: Command and arguments.
        environment: Environment variables, also those from Secrets.
        folder: Working directory.
        user: Id of the user and the group.
        name: Name of the host.
        mounts: Target, folder of this machine, and whether it is writable. The order matters.
        read_only: Whether the root file system is read-only.
        enter: The beginning of a command line that runs in the pod's network.
        log: File to which the output is appended.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    user: int
    name: str
    mounts: Sequence[tuple[str, Path, bool]]
    read_only: bool
    enter: Sequence[str]
    log: Path

    def words(self) -> list[str]:
        """The command line that creates the sandbox and starts the command in it, as process 1."""
        words = [*self.enter, *_BWRAP.split(), "--hostname", self.name, "--dir", self.folder]
        words += ["--uid", str(self.user), "--gid", str(self.user)]
        for target, source, writable in self.mounts:
            words += ["--bind" if writable else "--ro-bind", str(source), target]
        words += ["--remount-ro", "/"] if self.read_only else []
        return [*words, "--chdir", self.folder, "--", *self.command]


class Process:
    """A container's process. The constructor starts it.

    Args:
        sandbox: Its sandbox.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._process = self._start(sandbox.words())

    def exit_code(self) -> int | None:
        """The exit code, 128 and the signal's number if a signal has ended it, or None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def last_output(self) -> str:
        """The end of its output, as long as a pod's status may have it."""
        lines = self._sandbox.log.read_text(errors="replace").splitlines(keepends=True)[-_MESSAGE_LINES:]
        return "".join(lines)[-_MESSAGE_CHARACTERS:]

    def wait(self, seconds: float) -> None:
        """Waits for its end, at most for these seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to process 1 of the container, which can ignore any signal except SIGKILL."""
        inside = self._inside()
        with suppress(ProcessLookupError):
            os.kill(inside, number) if inside else self._process.send_signal(number)

    def execute(self, command: Sequence[str], seconds: float) -> bool:
        """Runs a command in the container. Returns whether it ends with 0 in time."""
        while not (inside := self._inside()) or not self._is_ready(inside):
            if self.exit_code() is not None:
                return False
            self.wait(0.05)  # the sandbox is not ready yet
        enter = [*_ENTER.split(), f"--target={inside}", "env", f"--chdir={self._sandbox.folder}"]
        process = self._start([*enter, *command])
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False

    @staticmethod
    def _is_ready(inside: int) -> bool:
        """Whether the sandbox runs its command. False if it has just ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return Path(f"/proc/{inside}/comm").read_text() != "bwrap\n"
        return False

    def _start(self, words: list[str]) -> "subprocess.Popen[bytes]":
        with self._sandbox.log.open("ab") as log:
            return start(words, stdout=log, stderr=log, env={**self._sandbox.environment})

    def _inside(self) -> int | None:
        """Process id of the container's process 1 on this machine."""
        outside = self._process.pid
        with suppress(FileNotFoundError, ProcessLookupError):
            children = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
            return int(children[0]) if children else None
