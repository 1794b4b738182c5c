"""Cloud Storage on the loopback, as far as pyarrow asks: objects in memory, and refusals."""

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class Bucket:
    """`refusal` is asked first about every request and may answer with a status."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refusal: Callable[[], int | None] = lambda: None
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                status, headers, content = bucket.answer(self.command, self.path, body)
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        if status := self.refusal():
            told = {"code": status, "message": f"the answer is {status}"}
            return status, {}, json.dumps({"error": told}).encode()
        path, query = unquote(urlsplit(url).path), parse_qs(urlsplit(url).query)
        if method == "POST":
            place = f"http://{self.address}/upload/{query['name'][0]}"
            return 200, {"location": place}, b""
        if method == "PUT":
            name = path.removeprefix("/upload/")
            self.objects[name] = body
            return 200, {}, json.dumps(_told(name, body)).encode()
        found = re.fullmatch(r"/storage/v1/b/bucket/o/?(.*)", path)
        name = found[1] if found else ""
        if not name:
            prefix = query["prefix"][0]
            items = [_told(key, content) for key, content in self.objects.items() if key.startswith(prefix)]
            return 200, {}, json.dumps({"items": items}).encode()
        if name not in self.objects:
            return 404, {}, b'{"error": {"code": 404, "message": "No such object"}}'
        content = self.objects[name]
        if query.get("alt") == ["media"]:
            return 200, {"x-goog-generation": "1"}, content
        return 200, {}, json.dumps(_told(name, content)).encode()


def _told(name: str, content: bytes) -> dict[str, str]:
    return {
        "kind": "storage#object",
        "bucket": "bucket",
        "name": name,
        "size": str(len(content)),
        "generation": "1",
    }
