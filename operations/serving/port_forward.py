"""Forwards a local port to a pod through the API server of its cluster, as `kubectl port-forward` does."""

import select
import ssl
from collections.abc import Callable
from contextlib import suppress
from socket import SHUT_RDWR, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Final, Self

from websocket import ABNF, WebSocket, WebSocketBadStatusException, WebSocketException

from operations.errors import CallError

# The pod's bytes come on one channel and its error on the other. The first frame of a channel has the port.
_CONTENT, _ERROR = 0, 1
_MOST_BYTES: Final = 65536


class PortForward:
    """A port of this machine that leads to a pod, for as long as the context.

    Args:
        open_connection: Opens a connection to the pod's port, which speaks `v4.channel.k8s.io`.

    Attributes:
        address: URL of the port.
        problem: Why a connection failed last, None if none did.
    """

    def __init__(self, open_connection: Callable[[], WebSocket]) -> None:
        self._open_connection = open_connection
        self._open: set[socket] = set()
        self.problem: CallError | None = None

    def __enter__(self) -> Self:
        """Starts to listen."""
        forward = self

        class Tunnel(BaseRequestHandler):
            def handle(self) -> None:
                forward._serve(self.request)

        self._server = _Server(("127.0.0.1", 0), Tunnel)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops listening, and ends the open connections."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for local in tuple(self._open):
            with suppress(OSError):
                local.shutdown(SHUT_RDWR)

    def _serve(self, local: socket) -> None:
        """Carries the bytes of one local connection to the pod and back."""
        self._open.add(local)
        try:
            remote = self._open_connection()
            try:
                reason = _carry(local, remote)
            finally:
                remote.shutdown()
        except WebSocketBadStatusException as error:
            self.problem = CallError("port-forward", "the cluster refuses it", error.status_code)
        except (WebSocketException, OSError, ValueError) as error:
            self.problem = CallError("port-forward", f"the connection to the cluster broke: {error}")
        else:
            self.problem = CallError("port-forward", reason) if reason else None
        finally:
            self._open.discard(local)


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


def _carry(local: socket, remote: WebSocket) -> str:
    """Carries bytes until one side closes. Returns the pod's error, empty if there is none."""
    started: set[int] = set()
    wire = remote.sock
    assert wire
    while True:
        # TLS may have bytes that `select` does not see.
        is_pending = isinstance(wire, ssl.SSLSocket) and wire.pending()
        ready = [wire] if is_pending else select.select([local, wire], [], [])[0]
        if wire in ready:
            opcode, frame = remote.recv_data_frame(True)
            if opcode == ABNF.OPCODE_CLOSE:
                return ""
            channel, content = frame.data[:1], frame.data[1:]
            if opcode != ABNF.OPCODE_BINARY or not channel:
                continue
            if channel[0] not in started:
                started.add(channel[0])
            elif channel[0] == _ERROR:
                return content.decode(errors="replace")
            else:
                local.sendall(content)
        if local in ready:
            content = local.recv(_MOST_BYTES)
            if not content:
                return ""
            remote.send_binary(bytes([_CONTENT]) + content)
