"""A forge on this machine: merge requests with comments, over HTTP, as GitHub's and GitLab's APIs answer.

Routes and shapes: https://docs.github.com/rest/issues/comments, https://docs.gitlab.com/api/notes/
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from rehearsal.loopback import LoopbackServer, Request

TOKEN: Final = "token-of-the-job"
COMMIT: Final = "c" * 40
ME: Final = 7
_SHOWN_AT_MOST: Final = 100


@dataclass
class Stored:
    """A comment as the forge keeps it."""

    id: int
    body: str
    mine: bool


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    authorized: bool


@dataclass
class ForgeServer(LoopbackServer):
    """Keeps the comments of one merge request, number 5 of project `42` or `owner/name`.

    Attributes:
        comments: What is there.
        asked: What was asked, in order.
        answers: Statuses to answer the next requests with instead of doing them; 0 hangs up.
        after_creating: Called once each, after a comment was created and before the answer goes out.
        lose_creation: Whether to hang up instead of answering the next creation.
        pulls: What `commits/.../pulls` answers.
    """

    comments: list[Stored] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    after_creating: list[Callable[[], object]] = field(default_factory=list)
    lose_creation: bool = False
    pulls: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, body: str, *, mine: bool = True) -> Stored:
        """A comment that is there already."""
        stored = Stored(id=1 + max((each.id for each in self.comments), default=100), body=body, mine=mine)
        self.comments.append(stored)
        return stored

    @property
    def methods(self) -> list[str]:
        """The methods that were asked."""
        return [each.method for each in self.asked]

    def serve(self, request: Request) -> None:
        """Does what the request asks, or fails as the test says."""
        address = urlsplit(request.path)
        body = json.loads(request.body() or b"{}")
        headers = request.headers
        authorized = TOKEN in (headers.get("PRIVATE-TOKEN"), (headers.get("Authorization") or "")[7:])
        self.asked.append(Asked(request.command, address.path, authorized))
        status = self.answers.pop(0) if self.answers else 200
        if status == 0:
            request.close_connection = True
            return
        value: Any = {"message": "as the test says"}
        if not authorized:
            status = 401
        elif status == 200:
            status, value = self._do(request.command, address.path, parse_qs(address.query), body)
            if request.command == "POST" and self.lose_creation:
                self.lose_creation = False
                request.close_connection = True
                return
        text = b"" if value is None else json.dumps(value).encode()
        request.answer(status, text)

    def _do(
        self, method: str, path: str, query: Mapping[str, list[str]], body: Mapping[str, Any]
    ) -> tuple[int, Any]:
        if path == "/user":
            return 200, {"id": ME}
        if path == f"/repos/owner/name/commits/{COMMIT}/pulls":
            return 200, self.pulls
        if path in ("/repos/owner/name/issues/5/comments", "/projects/42/merge_requests/5/notes"):
            return self._collection(method, query, body)
        found = re.fullmatch(
            r"/repos/owner/name/issues/comments/(\d+)|/projects/42/merge_requests/5/notes/(\d+)", path
        )
        return self._one(method, int(found[1] or found[2]), body) if found else (404, {})

    def _collection(
        self, method: str, query: Mapping[str, list[str]], body: Mapping[str, Any]
    ) -> tuple[int, Any]:
        if method == "POST":
            stored = self.add(body["body"])
            while self.after_creating:
                self.after_creating.pop()()
            return 201, self._shown(stored)
        size = min(int(query["per_page"][0]), _SHOWN_AT_MOST)
        start = (int(query["page"][0]) - 1) * size
        return 200, [self._shown(each) for each in self.comments[start : start + size]]

    def _one(self, method: str, number: int, body: Mapping[str, Any]) -> tuple[int, Any]:
        found = [each for each in self.comments if each.id == number]
        if not found:
            return 404, {}
        if method == "DELETE":
            self.comments.remove(found[0])
            return 204, None
        found[0].body = body["body"]
        return 200, self._shown(found[0])

    def _shown(self, stored: Stored) -> dict[str, Any]:
        user = {"type": "Bot" if stored.mine else "User"}
        author = {"id": ME if stored.mine else ME + 1}
        return {
            "id": stored.id,
            "body": stored.body,
            "user": user,
            "author": author,
        }
