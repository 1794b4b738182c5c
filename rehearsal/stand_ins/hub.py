"""A Hugging Face Hub on the loopback: the part of the API that huggingface_hub and datasets use."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from rehearsal.stand_ins.answers import Answer, send, token_of
from rehearsal.stand_ins.loopback import LoopbackServer, Request

_PATH: Final = re.compile(
    r"(?:/api)?(?:/(models|datasets))?/([^/]+/[^/]+)(?:/(revision|tree|paths-info|resolve|preupload|commit)/([^/]+))?(?:/(.*))?"
)


@dataclass
class Repository:
    """A repository.

    Attributes:
        commits: Directories by commit.
        branches: Commits by branch.
        gated: Whether only some tokens may read the files. Everybody may see the repository.
        private: Whether it is private.
        pushed: The files that were pushed by the API. They cannot be read again.
    """

    commits: dict[str, Path] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    pushed: dict[str, bytes] = field(default_factory=dict)

    def push(self, directory: Path, branch: str = "main") -> str:
        """Adds a commit of a directory and returns its hash."""
        commit = hashlib.sha1(f"{directory}{len(self.commits)}".encode()).hexdigest()
        self.commits[commit], self.branches[branch] = directory, commit
        return commit


class Hub(LoopbackServer):
    """A Hub without a repository.

    Attributes:
        repositories: Repositories by `models` or `datasets` and the name.
        tokens: Valid tokens, with the names of the gated repositories whose files they may read.
        requests: The path of every request.
        refusal: Called first with the path of a request. May return a code and headers to refuse it.
        damaged: Name of a file that is sent with its bytes in another order, empty for none.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Empties the Hub, and lets it refuse nothing."""
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.tokens: dict[str, set[str]] = {}
        self.requests: list[str] = []
        self.refusal: Callable[[str], tuple[int, Mapping[str, str]] | None] = lambda _path: None
        self.damaged = ""

    def model(self, name: str) -> Repository:
        """A repository by its name. It is created on the first call."""
        return self.repositories.setdefault(("models", name), Repository())

    def data_set(self, name: str) -> Repository:
        """A repository by its name. It is created on the first call."""
        return self.repositories.setdefault(("datasets", name), Repository())

    def serve(self, request: Request) -> None:
        """Answers as the real Hub does."""
        body, path = request.body(), unquote(urlsplit(request.path).path)
        self.requests.append(path)
        if refusal := self.refusal(path):
            answer = refusal[0], {}, refusal[1]
        else:
            answer = self._answer(path, token_of(request), body)
        send(request, answer)

    def _answer(self, path: str, token: str | None, body: bytes) -> Answer:
        if token and token not in self.tokens:
            return 401, {}, {"X-Error-Message": "Invalid credentials in Authorization header"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}, {}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        match = _PATH.fullmatch(path)
        return self._of_repository(match, token, body) if match else (404, {}, {})

    def _of_repository(self, match: re.Match[str], token: str | None, body: bytes) -> Answer:
        """The answer to a request for a repository."""
        kind, name, action, revision, file = match.groups()
        repository = self.repositories.get((kind or "models", name))
        if repository is None:
            # Without a token, the Hub does not say whether others may see the repository.
            return 404 if token else 401, {}, {"X-Error-Code": "RepoNotFound"}
        if action in ("preupload", "commit"):
            return 200, _push(repository, action, name, body), {}
        commit = repository.branches.get(revision or "main", revision)
        if commit not in repository.commits:
            return 404, {}, {"X-Error-Code": "RevisionNotFound"}
        directory = repository.commits[commit]
        if action != "resolve":
            return _described(match, commit, directory, body)
        if repository.gated and name not in self.tokens.get(token or "", ()):
            return 403 if token else 401, {}, {"X-Error-Code": "GatedRepo"}
        answer = _content(directory / file, {"X-Repo-Commit": commit})
        return (answer[0], answer[1][::-1], answer[2]) if file and file == self.damaged else answer

    def _create(self, asked: Any) -> Answer:
        name = f"{asked['organization']}/{asked['name']}"
        known = ("models", name) in self.repositories
        repository = self.model(name)
        repository.private = repository.private if known else asked.get("visibility") == "private"
        return 409 if known else 200, {"url": f"{self.address}/{name}"}, {}


def _content(file: Path, headers: Mapping[str, str]) -> Answer:
    if not file.is_file():
        return 404, {}, {**headers, "X-Error-Code": "EntryNotFound"}
    return 200, file.read_bytes(), {**headers, "ETag": f'"{_digest(file)}"'}


def _push(repository: Repository, what: str, name: str, body: bytes) -> Any:
    """Takes the files of a push, all of them in the commit itself, and returns the answer."""
    if what == "preupload":
        regular = {"uploadMode": "regular", "shouldIgnore": False}
        return {"files": [{"path": file["path"], **regular} for file in json.loads(body)["files"]]}
    for line in map(json.loads, body.splitlines()):
        if line["key"] == "file":
            repository.pushed[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
    oid = hashlib.sha1(body).hexdigest()
    return {"success": True, "commitOid": oid, "commitUrl": f"https://huggingface.co/{name}/commit/{oid}"}


def _entries(directory: Path, folder: str = "") -> list[dict[str, Any]]:
    files = [file for file in sorted((directory / folder).rglob("*")) if file.is_file()]
    paths = {str(file.relative_to(directory)): file for file in files}
    return [
        {"type": "file", "path": path, "rfilename": path, "size": file.stat().st_size, **_hashes(file)}
        for path, file in paths.items()
    ]


def _hashes(file: Path) -> dict[str, Any]:
    """Git's hash of a small file. A large one is in Git as a pointer, and has a hash of its own."""
    content = file.read_bytes()
    if file.suffix == ".safetensors":
        digest = hashlib.sha256(content).hexdigest()
        # A tree calls the hash `oid`, the description of a repository `sha256`.
        large = {"oid": digest, "sha256": digest, "size": len(content), "pointerSize": 134}
        return {"oid": hashlib.sha1(digest.encode()).hexdigest(), "lfs": large}
    return {"oid": hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()}


def _described(match: re.Match[str], commit: str, directory: Path, body: bytes) -> Answer:
    _, name, action, _, folder = match.groups()
    if action == "tree":
        if not (directory / (folder or "")).is_dir():
            return 404, {}, {"X-Error-Code": "EntryNotFound"}
        return 200, _entries(directory, folder or ""), {}
    if action == "paths-info":
        paths = json.loads(body)["paths"]
        return 200, [entry for entry in _entries(directory) if entry["path"] in paths], {}
    return 200, {"id": name, "sha": commit, "siblings": _entries(directory)}, {}


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
