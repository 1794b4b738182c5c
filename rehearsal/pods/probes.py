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


def act(
    handler: Mapping[str, Any], process: Process, address: str, container: Object, seconds: float
) -> bool:
    """Does what a hook or probe says; whether that succeeds in time."""
    if "exec" in handler:
        return process.execute(handler["exec"]["command"], seconds)
    if "sleep" in handler:
        process.wait(min(seconds, handler["sleep"]["seconds"]))
        return True
    ask = handler.get("httpGet") or handler["tcpSocket"]
    named = {port.get("name"): port["containerPort"] for port in container.get("ports") or ()}
    host, port = ask.get("host") or address, named.get(ask["port"], ask["port"])
    try:
        if "tcpSocket" in handler:
            socket.create_connection((host, port), seconds).close()
            return True
        url = f"{ask.get('scheme', 'HTTP').lower()}://{host}:{port}{ask.get('path', '/')}"
        return 200 <= urllib3.request("GET", url, retries=False, timeout=seconds).status < 400
    except (HTTPError, OSError):
        return False


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
        if hook and not self._act(hook, 3600.0):
            self.failure = "FailedPostStartHook"
            return
        if not self._settles("startupProbe", True):
            self.failure = "startup probe failed"
            return
        self.started = True
        if "readinessProbe" not in self._container:
            self.ready = self._process.exit_code() is None
        for kind in ("livenessProbe", "readinessProbe"):
            threading.Thread(target=self._follow, args=(kind,), daemon=True).start()

    def _follow(self, kind: str) -> None:
        """Asks until the container ends."""
        while kind in self._container and self._process.exit_code() is None:
            good = self._settles(kind, not self.ready if kind == "readinessProbe" else False)
            if kind == "readinessProbe":
                self.ready = good
            elif not good:
                self.failure = "liveness probe failed"
                return

    def _settles(self, kind: str, until: bool) -> bool:
        """Asks until a probe has failed, or `until` it has succeeded, as often as it says; whether it has."""
        probe = self._container.get(kind)
        if probe is None:
            return True
        self._process.wait(probe.get("initialDelaySeconds") or 0)
        counts = {True: 0, False: 0}
        while self._process.exit_code() is None:
            begun = time.monotonic()
            good = self._act(probe, probe.get("timeoutSeconds") or 1)
            counts[good] += 1
            counts[not good] = 0
            if not good and counts[good] >= (probe.get("failureThreshold") or 3):
                return False
            if good and until and counts[good] >= (probe.get("successThreshold") or 1):
                return True
            self._process.wait(max(0.0, begun + (probe.get("periodSeconds") or 10) - time.monotonic()))
        return False

    def _act(self, handler: Mapping[str, Any], seconds: float) -> bool:
        return act(handler, self._process, self._address, self._container, seconds)
