"""A controller that runs as a process beside the API server, where a cluster has a pod of it."""

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
    """One controller.

    Args:
        program: Its program.
        folder: For its kubeconfig and its log.
        administrator: Path of the administrator's kubeconfig.

    Attributes:
        kubeconfig: Path of its own kubeconfig, once it has been started.
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
        """Starts it with the rights of a service account, and waits until it says that it is ready.

        Args:
            api: The API server.
            account: The service account.
            arguments: Beside its kubeconfig.
            health: The port that it says so on.
            environment: On top of this process's own.
            prepare: Does what it needs before that; whether that is done.

        Raises:
            RehearsalError: With the end of its log, when it ends or does not become ready; it is ended then.
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
        """Ends it, if it runs."""
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
            # Unlike requests it takes no proxy from the environment.
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}/readyz", retries=False, timeout=5)
            return answer.status == 200
        except HTTPError:
            return False

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])
