"""Forwards the API server's connections to nodes and pods by an agent with its own address, as on GKE.

The API server's configuration is as in
https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/. Its `services/proxy` and `pods/proxy`
reach a pod only if network policies admit the agent.
"""

import socket
import threading
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from typing import Final, Self

from rehearsal.control_plane.kwokctl import KONNECTIVITY
from rehearsal.pods.network import AGENT

# The real agent waits for a connection as long.
_SECONDS: Final = 5.0


class _Tunnel(StreamRequestHandler):
    """One connection of the API server, which begins with `CONNECT HOST:PORT HTTP/1.1`."""

    rbufsize = 0

    def handle(self) -> None:
        host, _, port = self.rfile.readline().split()[1].decode().rpartition(":")
        while self.rfile.readline().strip():
            pass  # headers
        try:
            target = socket.create_connection((host.strip("[]"), int(port)), _SECONDS, (AGENT, 0))
        except OSError as error:
            self.wfile.write(f"HTTP/1.1 502 {error}\r\n\r\n".encode())
            return
        with target:
            target.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            answers = threading.Thread(target=_forward, args=(target, self.connection), daemon=True)
            answers.start()
            _forward(self.connection, target)
            answers.join()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


class Konnectivity:
    """Server and agent in one, in the network of `network.enter`. The object is a context."""

    def __enter__(self) -> Self:
        """Starts to listen."""
        # An abstract socket belongs to the network namespace and needs no file.
        self._server = _Server(KONNECTIVITY.replace("@", "\0"), _Tunnel)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _forward(source: socket.socket, target: socket.socket) -> None:
    """Forwards the bytes of one side until it closes, and closes the other side."""
    with suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
