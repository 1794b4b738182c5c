"""An HTTP server on loopback, the base of all stand-ins for servers."""

import json
import ssl
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import MappingProxyType
from typing import Any, Final, Self

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Request(BaseHTTPRequestHandler):
    """The requests of a connection, one after the other."""

    protocol_version = "HTTP/1.1"
    # This sends an answer as one packet. With two packets, the second one waits for the other side.
    wbufsize = -1

    def handle_expect_100(self) -> bool:
        """Says at once that a large body may be sent. Otherwise some clients wait for a second."""
        expected = super().handle_expect_100()
        self.wfile.flush()
        return expected

    def body(self) -> bytes:
        """The body of the request. It must be read before the answer."""
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(size)
        if len(content) < size:
            raise ConnectionAbortedError("the other side hung up")
        return content

    def answer(self, code: int, content: bytes, headers: Mapping[str, str] = _NONE) -> None:
        """Sends an answer."""
        self.send_response(code)
        for name, text in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    def answer_json(self, code: int, message: Any, headers: Mapping[str, str] = _NONE) -> None:
        """Sends an answer as Google's APIs do."""
        content = json.dumps(message).encode()
        self.answer(code, content, {"Content-Type": "application/json; charset=UTF-8", **headers})

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing: the servers that need a log keep the requests themselves."""


class _Server(ThreadingTCPServer):
    # HTTPServer would ask a name server for the name of its address, and there may be none.
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints an error, unless the other side hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class LoopbackServer(ABC):
    """A server on its own port. It is a context.

    Attributes:
        host: The address of this machine at which it listens.
        port: The port, 0 for any free one.
        address: Its URL, `http://HOST:PORT`.
        tls: The TLS context, None for plain HTTP.
    """

    host = "127.0.0.1"
    port = 0
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> Self:
        """Starts to listen."""
        server = self

        class Handler(Request):
            def _serve(self) -> None:
                server.serve(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        self._http = _Server((self.host, self.port), Handler)
        if self.tls:
            self._http.socket = self.tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.address = f"http://{self.host}:{self._http.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        """Stops listening."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @abstractmethod
    def serve(self, request: Request) -> None:
        """Answers a request, in the thread of its connection."""
