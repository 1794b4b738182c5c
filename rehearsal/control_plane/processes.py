"""The processes of the control plane."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rehearsal.errors import RehearsalError

_TIMEOUT: Final = 60.0
# A component that does not end within this time is killed, in seconds.
_GRACE: Final = 10.0
_PAUSE: Final = 0.05
_TAIL: Final = 15


class Component:
    """One process, with its output in a file.

    Args:
        name: What it is called in messages.
        command: Program and arguments.
        log: Where its output goes.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            # A session of its own: Ctrl-C in the terminal reaches the rehearsal alone, which ends
            # the components in good order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Its process id, also that of its process group."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def until(self, ready: Callable[[], bool], timeout: float = _TIMEOUT) -> None:
        """Waits until it is ready.

        Args:
            ready: Asked again and again.
            timeout: Seconds.

        Raises:
            RehearsalError: With the end of its log, when it ends or does not become ready.
        """
        deadline = time.monotonic() + timeout
        while not ready():
            if self.ended:
                raise RehearsalError(f"{self.name} ended as it started; the end of its log:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"{self.name} is not ready after {timeout:.0f} s; the end of its log:\n{self.tail()}"
                )
            time.sleep(_PAUSE)

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL:])

    def stop(self) -> None:
        """Ends it and everything it started."""
        if not self.ended:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):  # mostly the group ended with its leader
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on; all different, as all are held until all are found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
