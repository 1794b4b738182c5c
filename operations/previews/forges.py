"""Puts a comment on a merge request: a single one, updated with every preview."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import requests
from tenacity import retry_if_exception_type

from operations.errors import OperationError
from operations.previews.comment import MARKER
from operations.retries import retrying

T = TypeVar("T")

# Seconds for a connection and for an answer.
_TIMEOUT: Final = (10, 30)
_ATTEMPTS: Final = 4
_PAGE: Final = 100
_TOO_OFTEN: Final = 429


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment that we wrote before.

    Args:
        id: Its number; an older comment has a smaller one.
        body: Its text.
    """

    id: int
    body: str


class _TryAgain(Exception):
    """An answer that another attempt may better."""


class Forge(ABC):
    """One merge request at a forge.

    Args:
        address: Of the API, such as `https://api.github.com`.
        headers: Headers that carry the token.
    """

    # Greatest length of a comment, in characters.
    LIMIT: int
    # What the token must be allowed.
    RIGHTS: str

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._address = address.rstrip("/")
        self._session = requests.Session()
        self._session.headers.update(headers)

    def put(self, text: str) -> str:
        """Writes the comment or replaces the one that is there; returns which of the two.

        Raises:
            OperationError: When the forge refuses, or does not answer.
        """
        return self.with_retries(lambda: self._put(text))

    def with_retries(self, work: Callable[[], T]) -> T:
        """Does something, from its beginning again while the forge does not answer.

        Raises:
            OperationError: When the forge refuses, or does not answer the last attempt either.
        """
        try:
            return retrying(retry_if_exception_type(_TryAgain), _ATTEMPTS)(work)
        except _TryAgain as error:
            raise OperationError(f"{error}, {_ATTEMPTS} times; run the job again") from None

    def _put(self, text: str) -> str:
        done = "updated"
        found = self._ours()
        if not found:
            self._create(text)
            done = "created"
            # Two jobs that found none have made two: each looks again, and both keep the oldest.
            found = self._ours()
        oldest, *others = sorted(found, key=lambda comment: comment.id) or [None]
        if oldest and oldest.body.strip() != text.strip():
            self._update(oldest.id, text)
        for comment in others:
            if comment:
                self._delete(comment.id)
        return done

    @abstractmethod
    def _ours(self) -> list[Comment]:
        """The comments of this command, by the marker and by who wrote them."""

    @abstractmethod
    def _create(self, text: str) -> None: ...

    @abstractmethod
    def _update(self, number: int, text: str) -> None: ...

    @abstractmethod
    def _delete(self, number: int) -> None: ...

    def call(self, method: str, path: str, **options: Any) -> Any:
        """The parsed answer of the API.

        Raises:
            OperationError: When the forge refuses.
        """
        try:
            answer = self._session.request(method, f"{self._address}{path}", timeout=_TIMEOUT, **options)
        except requests.RequestException as error:
            raise _TryAgain(f"{method} {path}: no answer ({type(error).__name__})") from None
        if answer.status_code in (401, 403) and answer.headers.get("X-RateLimit-Remaining") != "0":
            raise OperationError(
                f"{method} {path}: {answer.status_code}, the token is refused; {self.RIGHTS}"
            )
        if answer.status_code >= 500 or answer.status_code in (403, _TOO_OFTEN):
            raise _TryAgain(f"{method} {path}: {answer.status_code}")
        if answer.status_code == 404 and method == "DELETE":
            return None
        if not answer.ok:
            raise OperationError(f"{method} {path}: {answer.status_code} {answer.reason}")
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            raise _TryAgain(f"{method} {path}: {answer.status_code}, but what came is not JSON") from None

    def _listed(self, path: str) -> list[dict[str, Any]]:
        """Everything behind a path that answers page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = len(found) // _PAGE + 1
            entries = self.call("GET", path, params={"per_page": _PAGE, "page": page})
            if not isinstance(entries, list):
                raise _TryAgain(f"GET {path}: not a list")
            found += entries
            if len(entries) < _PAGE:
                return found


class GitHub(Forge):
    """A pull request at GitHub.

    Args:
        repository: `owner/name`.
        number: Number of the pull request.
        token: As `github.token` gives it to a job.
        address: Of the API.
    """

    LIMIT = 65_536
    RIGHTS = "the job needs `permissions: pull-requests: write`"

    def __init__(
        self,
        *,
        repository: str,
        number: int,
        token: str,
        address: str = "https://api.github.com",
    ) -> None:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        super().__init__(address, headers)
        self._repository = f"/repos/{repository}"
        self._number = number

    def open_with(self, commit: str) -> list[int]:
        """Numbers of the open pull requests whose newest commit this is.

        Raises:
            OperationError: As `put`.
        """
        found = self.with_retries(lambda: self._listed(f"{self._repository}/commits/{commit}/pulls"))
        return [each["number"] for each in found if each["state"] == "open" and each["head"]["sha"] == commit]

    def _ours(self) -> list[Comment]:
        entries = self._listed(f"{self._repository}/issues/{self._number}/comments")
        return [
            Comment(id=entry["id"], body=entry["body"])
            for entry in entries
            # A person may quote a comment of ours; GITHUB_TOKEN is a bot's.
            if (entry.get("body") or "").startswith(MARKER) and entry["user"]["type"] == "Bot"
        ]

    def _create(self, text: str) -> None:
        self.call("POST", f"{self._repository}/issues/{self._number}/comments", json={"body": text})

    def _update(self, number: int, text: str) -> None:
        self.call("PATCH", f"{self._repository}/issues/comments/{number}", json={"body": text})

    def _delete(self, number: int) -> None:
        self.call("DELETE", f"{self._repository}/issues/comments/{number}")


class GitLab(Forge):
    """A merge request at GitLab.

    Args:
        project: Id of the project.
        number: Number of the merge request inside the project (`iid`).
        token: A project access token.
        address: Of the API, version 4.
    """

    LIMIT = 1_000_000
    RIGHTS = (
        "GITLAB_TOKEN must be a project access token with the scope `api` and the role Reporter or higher"
    )

    def __init__(
        self,
        *,
        project: str,
        number: int,
        token: str,
        address: str = "https://gitlab.com/api/v4",
    ) -> None:
        super().__init__(address, {"PRIVATE-TOKEN": token})
        self._notes = f"/projects/{project}/merge_requests/{number}/notes"

    def _ours(self) -> list[Comment]:
        me = self.call("GET", "/user")["id"]
        return [
            Comment(id=entry["id"], body=entry["body"])
            for entry in self._listed(self._notes)
            if (entry.get("body") or "").startswith(MARKER) and entry["author"]["id"] == me
        ]

    def _create(self, text: str) -> None:
        self.call("POST", self._notes, json={"body": text})

    def _update(self, number: int, text: str) -> None:
        self.call("PUT", f"{self._notes}/{number}", json={"body": text})

    def _delete(self, number: int) -> None:
        self.call("DELETE", f"{self._notes}/{number}")


def github_pull_request(environment: Mapping[str, str], commit: str) -> GitHub | None:
    """The open pull request whose newest commit this is, None when it has a newer one or is closed.

    A workflow that runs after another one is not told the number of a pull request from a fork.

    Raises:
        OperationError: When GitHub refuses.
    """
    # Any number: it is not asked about.
    forge = _github(environment, number=0)
    numbers = forge.open_with(commit)
    return _github(environment, number=min(numbers)) if numbers else None


def gitlab_merge_request(environment: Mapping[str, str]) -> GitLab:
    """The merge request whose pipeline this is.

    Raises:
        OperationError: When the environment does not say.
    """
    return GitLab(
        project=_variable(environment, "CI_PROJECT_ID"),
        number=int(_variable(environment, "CI_MERGE_REQUEST_IID")),
        token=_variable(environment, "GITLAB_TOKEN"),
        address=_variable(environment, "CI_API_V4_URL"),
    )


def _github(environment: Mapping[str, str], number: int) -> GitHub:
    return GitHub(
        repository=_variable(environment, "GITHUB_REPOSITORY"),
        number=number,
        token=_variable(environment, "GITHUB_TOKEN"),
        address=_variable(environment, "GITHUB_API_URL"),
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise OperationError(f"{name} is not set: a comment is posted from a job of the forge")
    return environment[name]
