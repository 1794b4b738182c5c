"""The life of a container: it starts, is probed, ends, and starts again after a pause."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.pods.container import Process, Sandbox

# Seconds before a restart: the first time and at most. Every pause is twice as long as the one before.
_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
# Here everything shares a few cores. A probe of a healthy container needs more than its second then.
_PATIENCE = 10


class Probes:
    """Runs the probes and hooks of a started container until it ends.

    Args:
        container: The container's specification.
        process: Its process.
        address: The address of its pod.

    Attributes:
        started: Whether the hook and the startup probe have succeeded.
        ready: Whether the readiness probe has succeeded.
        failure: Why the container must end, empty while there is no reason.
    """

    def __init__(self, container: Object, process: Process, address: str) -> None:
        self._container, self._process, self._address = container, process, address
        self.started = self.ready = False
        self.failure = ""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        hook = (self._container.get("lifecycle") or {}).get("postStart")
        if hook and not self._act(hook, 3600.0):
            self.failure = "FailedPostStartHook"
        elif not self._settles("startupProbe", True):
            self.failure = "startup probe failed"
        else:
            self.started, self.ready = True, "readinessProbe" not in self._container
            threading.Thread(target=self._follow, daemon=True).start()
            if not self._settles("livenessProbe", False):
                self.failure = "liveness probe failed"

    def stop(self, grace: float) -> None:
        """Stops the process by hook and SIGTERM, and kills it after `grace` seconds."""
        deadline = time.monotonic() + grace
        if hook := (self._container.get("lifecycle") or {}).get("preStop"):
            self._act(hook, grace)
        self._process.signal(signal.SIGTERM)
        # A kubelet always gives two seconds after the hook.
        self._process.wait(max(2.0, deadline - time.monotonic()))
        if self._process.exit_code() is None:
            self._process.signal(signal.SIGKILL)

    def _act(self, handler: Mapping[str, Any], seconds: float) -> bool:
        """Runs a hook or probe. Returns whether it succeeds in time."""
        if "exec" in handler:
            return self._process.execute(handler["exec"]["command"], seconds)
        if "sleep" in handler:
            self._process.wait(min(seconds, handler["sleep"]["seconds"]))
            return True
        ask = handler.get("httpGet") or handler["tcpSocket"]
        named = {port.get("name"): port["containerPort"] for port in self._container.get("ports") or ()}
        port = named.get(ask["port"], ask["port"])
        try:
            if "tcpSocket" in handler:
                socket.create_connection((self._address, port), seconds).close()
                return True
            url = f"http://{self._address}:{port}{ask.get('path', '/')}"
            return 200 <= urllib3.request("GET", url, retries=False, timeout=seconds).status < 400
        except (HTTPError, OSError):
            return False

    def _follow(self) -> None:
        while "readinessProbe" in self._container and self._process.exit_code() is None:
            ready = self._settles("readinessProbe", not self.ready)
            if self._process.exit_code() is None:  # otherwise it has ended before the probe had a result
                self.ready = ready

    def _settles(self, kind: str, until: bool) -> bool:
        """Runs a probe until its failure threshold, and returns False then. Its success ends it if `until`.

        Without the probe, or if the process ends, the result is True.
        """
        probe, failures = self._container.get(kind), 0
        if probe is None:
            return True
        self._process.wait(probe.get("initialDelaySeconds") or 0)
        while self._process.exit_code() is None:
            begin = time.monotonic()
            is_good = self._act(probe, _PATIENCE * (probe.get("timeoutSeconds") or 1))
            failures = 0 if is_good else failures + 1
            if (is_good and until) or failures == (probe.get("failureThreshold") or 3):
                return is_good
            self._process.wait(max(0.0, begin + (probe.get("periodSeconds") or 10) - time.monotonic()))
        return True


class Life:
    """A container from its first start to its last end. The pod calls `tick` again and again.

    Args:
        container: Its specification.
        policy: Its `restartPolicy`.
        sandbox: Makes its sandbox. Raises RehearsalError while something is missing.
        address: The address of its pod.
        grace: Seconds between SIGTERM and SIGKILL if a probe ends it.

    Attributes:
        done: Whether it has ended and does not start again.
        exit_code: The exit code of its last end.
        process: Its process, None before the first start.
    """

    def __init__(
        self, container: Object, policy: str, sandbox: Callable[[], Sandbox], address: str, grace: float
    ) -> None:
        self.container = container
        self._policy, self._sandbox, self._address, self._grace = policy, sandbox, address, grace
        self.process: Process | None = None
        self._probes: Probes | None = None
        self._starts_at, self._restarts = 0.0, 0
        self._state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self._last: Object = {}
        self.done, self.exit_code, self._ending = False, 0, False

    @property
    def ready(self) -> bool:
        """Whether it runs and its readiness probe has succeeded."""
        return "running" in self._state and self._probes is not None and self._probes.ready

    def tick(self) -> None:
        """Checks the process, and starts it when its pause is over."""
        if self.process and "running" in self._state:
            code = self.process.exit_code()
            if code is not None:
                self._ended(code)
            elif self._probes and self._probes.failure:
                self._end(self._grace)
        elif not self.done and time.monotonic() >= self._starts_at:
            self._start()

    def kill(self) -> None:
        """Kills it."""
        if self.process:
            self.process.signal(signal.SIGKILL)
            self.process.wait(10)

    def leave(self, grace: float) -> None:
        """Stops it within `grace` seconds, and never starts it again."""
        self._policy = "Never"
        self.done |= "waiting" in self._state
        self._end(grace)

    def status(self) -> Object:
        """Its entry in the pod's status."""
        return {
            "name": self.container["name"],
            "image": self.container["image"],
            "imageID": self.container["image"],
            "ready": self.ready,
            "started": bool(self._probes and self._probes.started and "running" in self._state),
            "restartCount": self._restarts,
            "state": self._state,
            "lastState": self._last,
        }

    def _start(self) -> None:
        try:
            self.process = Process(self._sandbox())
        except (RehearsalError, ConnectionError) as error:
            self._state = {"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}}
            self._starts_at = time.monotonic() + 1
            return
        self._ending = False
        self._probes = Probes(self.container, self.process, self._address)
        self._state = {"running": {"startedAt": now()}}

    def _end(self, grace: float) -> None:
        if self._probes and "running" in self._state and not self._ending:
            self._ending = True
            threading.Thread(target=self._probes.stop, args=(grace,), daemon=True).start()

    def _ended(self, code: int) -> None:
        self.exit_code = code
        ended: dict[str, Any] = {"exitCode": code, "reason": "Error" if code else "Completed"}
        ended |= {**self._state["running"], "finishedAt": now()}
        if code and self._probes and self._probes.failure:
            ended["message"] = self._probes.failure
        elif code and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            ended["message"] = self.process.last_output() if self.process else ""
        self._state = {"terminated": ended}
        self.done = self._policy == "Never" or (self._policy != "Always" and code == 0)
        if self.done:
            return
        self._last = self._state
        self._starts_at = time.monotonic() + min(_LONGEST_PAUSE, _PAUSE * 2**self._restarts)
        self._restarts += 1
        self._state = {"waiting": {"reason": "CrashLoopBackOff"}}


def now() -> str:
    """The present time in the format of Kubernetes."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
