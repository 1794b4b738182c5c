"""A Hugging Face Hub on the loopback: repositories with commits and branches, and refusals.

It serves what huggingface_hub and datasets ask of the real one: `api/models/ID/revision/REVISION`, the tree
of a commit, the files under `ID/resolve/REVISION/`.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+))?(?:/(.*))?")
FILE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


# A status: the connection ends without an answer.
HANG_UP = 0


@dataclass
class Repository:
    """Directories by commit, and commits by branch."""

    commits: dict[str, Path] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def push(self, directory: Path, branch: str = "main") -> str:
        """Make another commit of a directory; returns its hash."""
        commit = hashlib.sha1(f"{directory}{len(self.commits)}".encode()).hexdigest()
        self.commits[commit], self.branches[branch] = directory, commit
        return commit


class Hub:
    """`refusal` is asked first about every request, by its path, and may answer with a status and headers."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.requests: list[str] = []
        self.refusal: Callable[[str], tuple[int, dict[str, str]] | None] = lambda _path: None
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = unquote(urlsplit(self.path).path)
                hub.requests.append(path)
                status, headers, content = hub.answer(path, body)
                if status == HANG_UP:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = answer

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def reset(self) -> None:
        """An empty Hub in a good mood."""
        self.repositories, self.requests, self.refusal = {}, [], lambda _path: None

    def model(self, name: str) -> Repository:
        """A repository, made when it is first asked for."""
        return self.repositories.setdefault(("models", name), Repository())

    def data_set(self, name: str) -> Repository:
        """A repository, made when it is first asked for."""
        return self.repositories.setdefault(("datasets", name), Repository())

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content."""
        if refused := self.refusal(path):
            return *refused, b"{}"
        if found := API.fullmatch(path):
            kind, name, what, revision, rest = found.groups()
        elif found := FILE.fullmatch(path):
            prefix, name, revision, rest = found.groups()
            kind, what = "datasets" if prefix else "models", "file"
        else:
            return 404, {}, b"{}"
        repository = self.repositories.get((kind, name))
        if repository is None:
            return 404, {"x-error-code": "RepoNotFound"}, b"{}"
        commit = repository.branches.get(revision or "main", revision)
        if commit not in repository.commits:
            return 404, {"x-error-code": "RevisionNotFound"}, b"{}"
        directory = repository.commits[commit]
        if what == "file":
            return self._file(directory, rest, commit)
        files = sorted(file for file in directory.rglob("*") if file.is_file())
        entries = [_entry(file, directory) for file in files]
        if what == "paths-info":
            asked = json.loads(body)["paths"]
            entries = [entry for entry in entries if entry["path"] in asked]
        if what in ("tree", "paths-info"):
            return 200, {"content-type": "application/json"}, json.dumps(entries).encode()
        siblings = [{"rfilename": entry["path"]} for entry in entries]
        told = {"id": name, "sha": commit, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
        return 200, {"content-type": "application/json"}, json.dumps(told).encode()

    def _file(self, directory: Path, name: str, commit: str) -> tuple[int, dict[str, str], bytes]:
        file, headers = directory / name, {"x-repo-commit": commit}
        if not file.is_file():
            return 404, {**headers, "x-error-code": "EntryNotFound"}, b"{}"
        return 200, {**headers, "etag": f'"{_digest(file)}"'}, file.read_bytes()


def _entry(file: Path, directory: Path) -> dict[str, Any]:
    name, size = str(file.relative_to(directory)), file.stat().st_size
    return {"type": "file", "path": name, "size": size, "oid": _digest(file)}


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
