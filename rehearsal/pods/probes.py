"""Hooks and probes of a container, as a kubelet calls them."""

import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import Object
from rehearsal.pods.container import Process


class Probes(threading.Thread):
    """The hook after the start and the probes of one container that has been started, until it ends.

    Args:
        container: The container's specification.
        process: Its process.
        address: Of its pod.

    Attributes:
        started: Whether the hook and the startup probe have succeeded.
        ready: Whether the readiness probe says so.
        failure: Why the container has to be ended; empty while it has not.
    """

    def __init__(self, container: Object, process: Process, address: str) -> None:
        super().__init__(daemon=True)
        self._container, self._process, self._address = container, process, address
        self.started = self.ready = False
        self.failure = ""
        self.start()

    def run(self) -> None:
        """Calls them in turn."""
        hook = (self._container.get("lifecycle") or {}).get("postStart")
        if hook and not self.act(hook, 3600.0):
            self.failure = "FailedPostStartHook"
        elif not self._settles("startupProbe", True):
            self.failure = "startup probe failed"
        else:
            self.started, self.ready = True, "readinessProbe" not in self._container
            threading.Thread(target=self._follow, daemon=True).start()
            if not self._settles("livenessProbe", False):
                self.failure = "liveness probe failed"

    def act(self, handler: Mapping[str, Any], seconds: float) -> bool:
        """Does what a hook or probe says; whether that succeeds in time."""
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
            self.ready = self._settles("readinessProbe", not self.ready)

    def _settles(self, kind: str, until: bool) -> bool:
        """Asks until a probe has failed as often as it says, which is False, `until` it has succeeded."""
        probe, failures = self._container.get(kind), 0
        if probe is None:
            return True
        self._process.wait(probe.get("initialDelaySeconds") or 0)
        while self._process.exit_code() is None:
            begun = time.monotonic()
            good = self.act(probe, probe.get("timeoutSeconds") or 1)
            failures = 0 if good else failures + 1
            if (good and until) or failures == (probe.get("failureThreshold") or 3):
                return good
            self._process.wait(max(0.0, begun + (probe.get("periodSeconds") or 10) - time.monotonic()))
        return True
