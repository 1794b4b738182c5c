"""A forge on this machine: merge requests with comments, over HTTP, as GitHub's and GitLab's APIs answer.

Routes and shapes: https://docs.github.com/rest/issues/comments, https://docs.gitlab.com/api/notes/
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from rehearsal.stand_ins.loopback import LoopbackServer, Request

TOKEN: Final = "token-of-the-job"
COMMIT: Final = "c" * 40
_ME: Final = 7
_COMMENTS: Final = re.compile(
    r"/repos/owner/name/issues/5/comments|/projects/42/merge_requests/5/notes"
    r"|(?:/repos/owner/name/issues/comments|/projects/42/merge_requests/5/notes)/(\d+)"
)


@dataclass
class Stored:
    """A comment as the forge keeps it."""

    id: int
    body: str
    mine: bool


@dataclass
class ForgeServer(LoopbackServer):
    """Keeps the comments of one merge request, number 5 of project `42` or `owner/name`.

    Attributes:
        comments: What is there.
        methods: What was asked, in order.
        answers: Statuses with which to refuse the next requests. 0 hangs up.
        after_creating: Called once each, after a comment was created and before the answer goes out.
        lose_creation: Whether to hang up instead of answering the next creation.
        pulls: The open pull requests, those of forks too.
        saved: What each job of the merge request's pipeline saved as its previews, None for nothing.
    """

    comments: list[Stored] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    after_creating: list[Callable[[], object]] = field(default_factory=list)
    lose_creation: bool = False
    pulls: list[Mapping[str, Any]] = field(default_factory=lambda: [{"number": 5, "head": {"sha": COMMIT}}])

    saved: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a job of either forge is told."""
        return {
            "GITHUB_REPOSITORY": "owner/name",
            "HEAD_REPOSITORY": "owner/name",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_API_URL": self.address,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "42",
            "CI_PIPELINE_ID": "9",
            "CI_MERGE_REQUEST_IID": "5",
            "GITLAB_TOKEN": TOKEN,
            "CI_API_V4_URL": self.address,
        }

    @property
    def bodies(self) -> list[str]:
        """The texts of the comments."""
        return [comment.body for comment in self.comments]

    def add(self, body: str, *, mine: bool = True) -> Stored:
        """A comment that is there already."""
        stored = Stored(
            id=1 + max((comment.id for comment in self.comments), default=100), body=body, mine=mine
        )
        self.comments.append(stored)
        return stored

    def serve(self, request: Request) -> None:
        """Does what the request asks, or fails as the test says."""
        body = json.loads(request.body() or b"{}")
        tokens = request.headers.get("PRIVATE-TOKEN"), (request.headers.get("Authorization") or "")[7:]
        self.methods.append(request.command)
        status = self.answers.pop(0) if self.answers else 200 if TOKEN in tokens else 401
        value: Any = {"message": "as the test says"}
        if status == 200:
            status, value = self._do(request.command, urlsplit(request.path), body)
            if request.command == "POST" and self.lose_creation:
                self.lose_creation, status = False, 0
        if status:
            request.answer(status, b"" if value is None else json.dumps(value).encode())
        request.close_connection = not status

    def _do(self, method: str, address: Any, body: Mapping[str, Any]) -> tuple[int, Any]:
        fixed = {"/user": {"id": _ME}, "/repos/owner/name/pulls": self.pulls}
        if address.path in fixed:
            return 200, fixed[address.path]
        if address.path == "/projects/42/pipelines/9/jobs":
            jobs = [{"id": number, "name": name} for number, name in enumerate(self.saved)]
            return 200, jobs if parse_qs(address.query)["page"] == ["1"] else []
        if artifact := re.fullmatch(
            r"/projects/42/jobs/(\d+)/artifacts/\.build/previews\.json", address.path
        ):
            content = [*self.saved.values()][int(artifact[1])]
            return (404, {}) if content is None else (200, content)
        match = _COMMENTS.fullmatch(address.path)
        if match and not match[1]:
            return self._all(method, parse_qs(address.query), body)
        one = next((comment for comment in self.comments if match and comment.id == int(match[1])), None)
        if one and method == "DELETE":
            self.comments.remove(one)
            return 204, None
        if one:
            one.body = body["body"]
        return (200, _shown(one)) if one else (404, {})

    def _all(self, method: str, query: Mapping[str, list[str]], body: Mapping[str, Any]) -> tuple[int, Any]:
        if method == "POST":
            stored = self.add(body["body"])
            while self.after_creating:
                self.after_creating.pop()()
            return 201, _shown(stored)
        size = min(int(query["per_page"][0]), 100)
        start = (int(query["page"][0]) - 1) * size
        return 200, [_shown(comment) for comment in self.comments[start : start + size]]


def _shown(stored: Stored) -> dict[str, Any]:
    user, author = {"type": "Bot" if stored.mine else "User"}, {"id": _ME + (not stored.mine)}
    return {"id": stored.id, "body": stored.body, "user": user, "author": author}
