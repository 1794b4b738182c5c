"""An API server on loopback that answers with what a test plants, and with 404 to everything else."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from rehearsal.stand_ins.loopback import LoopbackServer, Request
from tests.operations.google_server import REFUSED, Fault

Object = dict[str, Any]


class KubernetesServer(LoopbackServer):
    """The server, for as long as the context. It speaks plain HTTP. The tests of the real control plane use
    TLS.

    Attributes:
        asked: Path and query of every request.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._objects: dict[str, list[Object]] = {}
        self._logs: dict[str, str] = {}
        self._faults: dict[str, Fault] = {}

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig of this server."""
        file = folder / "kubeconfig"
        names = {"name": "here", "context": {"cluster": "here", "user": "here"}}
        tree = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.address}}],
            "contexts": [names],
            "users": [{"name": "here", "user": {}}],
        }
        file.write_text(yaml.safe_dump(tree))
        return file

    def plant(self, path: str, *objects: Object) -> None:
        """Lets objects exist under a path such as `/api/v1/nodes`."""
        self._objects.setdefault(path, []).extend(objects)

    def plant_log(self, path: str, text: str) -> None:
        """Lets a pod's log exist under `/api/v1/namespaces/N/pods/P/log`."""
        self._logs[path] = text

    def fail(self, path: str, fault: Fault) -> None:
        """Lets a path, and all below it, fail."""
        self._faults[path] = fault

    def serve(self, request: Request) -> None:
        """Answers with what was planted, or a fault."""
        url = urlsplit(request.path)
        self.asked.append(request.path)
        fault = next((planted for path, planted in self._faults.items() if url.path.startswith(path)), None)
        if fault:
            fault.serve(request, {"kind": "Status", "message": fault.message})
        elif url.path in self._logs:
            assert parse_qs(url.query)["tailLines"]
            request.answer(200, self._logs[url.path].encode())
        elif url.path in self._objects:
            request.answer(200, json.dumps({"kind": "List", "items": self._objects[url.path]}).encode())
        elif url.path.endswith("/log"):
            request.answer(REFUSED.code, b"{}")
        else:
            request.answer(404, b'{"kind": "Status", "message": "the server could not find the resource"}')
