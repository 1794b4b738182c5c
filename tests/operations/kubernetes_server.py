"""An API server on loopback that answers with what a test plants; what nobody planted is not served."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.operations.google_server import REFUSED, Fault

Object = dict[str, Any]


class KubernetesServer:
    """The server, for as long as the context.

    Attributes:
        asked: Path and query of every request.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._objects: dict[str, list[Object]] = {}
        self._logs: dict[str, str] = {}
        self._faults: dict[str, Fault] = {}
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        """Listens on a port of its own."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops listening."""
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

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

    def respond(self, url: str) -> tuple[int, bytes, Fault | None]:
        """Status and content for a request, and how it fails."""
        self.asked.append(url)
        split = urlsplit(url)
        fault = next((each for path, each in self._faults.items() if split.path.startswith(path)), None)
        if fault:
            message = json.dumps({"kind": "Status", "message": fault.message}).encode()
            return fault.code, fault.body if fault.body is not None else message, fault
        if split.path in self._logs:
            assert parse_qs(split.query)["tailLines"]
            return 200, self._logs[split.path].encode(), None
        if split.path in self._objects:
            return 200, json.dumps({"kind": "List", "items": self._objects[split.path]}).encode(), None
        if split.path.endswith("/log"):
            return REFUSED.code, b"{}", None
        return 404, b'{"kind": "Status", "message": "the server could not find the requested resource"}', None

    def hold(self) -> None:
        """Waits for the server's end."""
        self._stopping.wait()


def _handler(server: KubernetesServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Plain HTTP: what TLS adds is tried on the real control plane."""

        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            code, content, fault = server.respond(self.path)
            if fault and fault.hang:
                server.hold()
                self.close_connection = True
                return
            self.send_response(code)
            self.send_header("Content-Length", str(len(content) + (100 if fault and fault.cut else 0)))
            self.end_headers()
            self.wfile.write(content)
            if fault and fault.cut:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    return Handler
