"""A controller that runs as a process beside the API server. In a cluster it is a pod."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import urllib3
import yaml
from urllib3.exceptions import HTTPError

from engine import go_build
from rehearsal.control_plane.api import Api, Object, until
from rehearsal.control_plane.kwokctl import LOG_LINES
from rehearsal.errors import RehearsalError


class Controller:
    """A controller.

    Args:
        program: Its program.
        folder: Folder for its kubeconfig and its log.
        administrator: Path of the administrator's kubeconfig.

    Attributes:
        kubeconfig: Path of its own kubeconfig, which `start` writes.
    """

    def __init__(self, program: str, folder: Path, administrator: Path) -> None:
        self._program = program
        self._log = folder / f"{program}.log"
        self._administrator = administrator
        self.kubeconfig = folder / "kubeconfig"
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        api: Api,
        account: Object,
        arguments: Sequence[str],
        *,
        health: int,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], bool] = lambda: True,
    ) -> None:
        """Starts the controller as a service account, and waits until it is ready.

        Args:
            api: The API server.
            account: The service account.
            arguments: Arguments of the program, without its kubeconfig.
            health: The port of its health checks.
            environment: Variables on top of this process's own.
            prepare: Does what the controller needs to become ready, and returns whether that is done.

        Raises:
            RehearsalError: If it ends or does not become ready, with the end of its log. It is stopped then.
        """
        tree = yaml.safe_load(self._administrator.read_text())
        tree["users"][0]["user"] = {"token": api.token(account)}
        self.kubeconfig.write_text(yaml.safe_dump(tree))
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(go_build.path_of(self._program)), *arguments, f"--kubeconfig={self.kubeconfig}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
            )
        self._log.with_suffix(".pid").write_text(str(self._process.pid))
        try:
            until(
                lambda: f"{self._program} to be ready; the end of its log:\n{self._tail()}",
                lambda: self._runs() and prepare() and self._is_ready(health),
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops it, if it runs."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _runs(self) -> bool:
        if self._process and self._process.poll() is not None:
            raise RehearsalError(f"{self._program} ended as it started; the end of its log:\n{self._tail()}")
        return True

    def _is_ready(self, port: int) -> bool:
        try:
            # The library requests would use the proxy of the environment.
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}/readyz", retries=False, timeout=5)
            return answer.status == 200
        except HTTPError:
            return False

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])
