"""An API server on loopback whose pods' ports can be forwarded."""

import base64
import hashlib
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from websocket import ABNF
from websocket._abnf import frame_buffer

from rehearsal.stand_ins.loopback import Request
from tests.operations.certificate import certify
from tests.operations.google_server import Fault
from tests.operations.kubernetes_server import KubernetesServer

# RFC 6455, section 1.3.
_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOL: Final = "v4.channel.k8s.io"


class ForwardingCluster(KubernetesServer):
    """The API server, for as long as the context.

    Args:
        pods: Host and port of what listens in a pod, by the pod's path and port.
        key: File for a key and a certificate, for TLS.

    Attributes:
        tokens: The Authorization headers of the connections to pods.
        certificate: Its certificate, empty without TLS.
        error: What a pod's side says in place of an answer, if anything.
        closed: Counts the connections to pods that have ended.
    """

    def __init__(self, pods: dict[str, tuple[str, int]], key: Path | None = None) -> None:
        super().__init__()
        self._pods = pods
        self.tokens: list[str | None] = []
        self.error = ""
        self.closed = threading.Semaphore(0)
        self.certificate = certify(key) if key else b""
        if key:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(key)

    def serve(self, request: Request) -> None:
        """Connects a port, or answers with what was planted."""
        url = urlsplit(request.path)
        path, _, last = url.path.rpartition("/")
        if last != "portforward" or any(url.path.startswith(faulty) for faulty in self._faults):
            super().serve(request)
            return
        self.tokens.append(request.headers["Authorization"])
        (port,) = parse_qs(url.query)["ports"]
        accepted = hashlib.sha1((request.headers["Sec-WebSocket-Key"] + _GUID).encode()).digest()
        request.send_response(101)
        request.send_header("Upgrade", "websocket")
        request.send_header("Connection", "Upgrade")
        request.send_header("Sec-WebSocket-Accept", base64.b64encode(accepted).decode())
        request.send_header("Sec-WebSocket-Protocol", _PROTOCOL)
        request.end_headers()
        request.wfile.flush()
        request.close_connection = True
        for channel in (0, 1):
            _send(request, channel, int(port).to_bytes(2, "little"))
        if self.error:
            _send(request, 1, self.error.encode())
            return
        with socket.create_connection(self._pods[f"{path}:{port}"]) as pod:
            answers = threading.Thread(target=_answer, args=(request, pod), daemon=True)
            answers.start()
            with suppress(OSError):
                _ask(request, pod)
            with suppress(OSError):
                pod.shutdown(socket.SHUT_RDWR)
            answers.join()
        self.closed.release()


def plant_server(cluster: ForwardingCluster, pods: str, name: str, **labels: str) -> None:
    """Lets a ready pod exist."""
    ready = [{"type": "Ready", "status": "True"}]
    pod = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Running", "conditions": ready}}
    cluster.plant(pods, pod)


def fails(code: int) -> Fault:
    """A refusal as an API server words it."""
    return Fault(code=code, message="pods is forbidden")


def _ask(request: Request, pod: socket.socket) -> None:
    def receive(size: int) -> bytes:
        # Otherwise the library would wait for ever for the rest of a frame.
        if not (content := request.connection.recv(size)):
            raise ConnectionAbortedError("the caller hung up")
        return content

    frames = frame_buffer(receive, True)
    while (frame := frames.recv_frame()).opcode == ABNF.OPCODE_BINARY:
        assert isinstance(frame.data, bytes) and frame.data[0] == 0
        pod.sendall(frame.data[1:])


def _answer(request: Request, pod: socket.socket) -> None:
    with suppress(OSError):
        while content := pod.recv(1024):
            _send(request, 0, content)
        request.connection.sendall(ABNF(1, 0, 0, 0, ABNF.OPCODE_CLOSE, 0, b"\x03\xe8").format())


def _send(request: Request, channel: int, content: bytes) -> None:
    frame = ABNF(1, 0, 0, 0, ABNF.OPCODE_BINARY, 0, bytes([channel]) + content)
    request.connection.sendall(frame.format())
