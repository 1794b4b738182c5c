"""Puts a comment on a merge request: a single one, updated with every preview."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import requests
from tenacity import retry_if_exception_type

from operations.errors import OperationError
from operations.google.headers import keep_headers
from operations.google.retries import retrying
from operations.previews.comment import MARKER

T = TypeVar("T")

# Greatest length of a comment, in characters.
LIMITS: Final = {"github": 65_536, "gitlab": 1_000_000}

# Where `make preview` saves, and the jobs of .gitlab-ci.yml that call it.
SAVED: Final = ".build/previews.json"
_PREVIEW_JOBS: Final = ("preview", "preview-cloud")

# Seconds for a connection and for an answer.
_TIMEOUT: Final = (10, 30)
_ATTEMPTS: Final = 4
_PAGE: Final = 100

_Whose = Callable[[Mapping[str, Any]], bool]


class _Api:
    """A forge's API at an address, such as `https://api.github.com`. The headers have the token."""

    def __init__(self, address: str, headers: Mapping[str, str], rights: str) -> None:
        self._address = address.rstrip("/")
        self._rights = rights
        self._session = requests.Session()
        self._session.headers.update(headers)
        self._session.auth = keep_headers

    def call(self, method: str, path: str, **options: Any) -> Any:
        """The parsed answer.

        Raises:
            OperationError: When the forge rejects the call.
            RequestException: When another attempt may get an answer.
        """
        answer = self._session.request(method, f"{self._address}{path}", timeout=_TIMEOUT, **options)
        status = answer.status_code
        if (method, status) == ("DELETE", 404):
            return None
        # A 403 may also mean too many calls.
        if status in (401, 403) and answer.headers.get("X-RateLimit-Remaining") != "0":
            raise OperationError(f"{method} {path}: {status}, the token is rejected; {self._rights}")
        if status < 500 and status not in (403, 429) and not answer.ok:
            raise OperationError(f"{method} {path}: {status} {answer.reason}")
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def content(self, path: str, longest: int) -> bytes | None:
        """The beginning of a file, at most `longest` bytes. None if there is no such file."""
        with self._session.get(f"{self._address}{path}", timeout=_TIMEOUT, stream=True) as answer:
            if answer.status_code == 404:
                return None
            answer.raise_for_status()
            return answer.raw.read(longest, decode_content=True)

    def listed(self, path: str) -> Iterator[dict[str, Any]]:
        """The entries on all pages of a list."""
        for page in count(1):
            entries = self.call("GET", path, params={"per_page": _PAGE, "page": page})
            yield from entries
            if len(entries) < _PAGE:
                return

    def put(self, text: str, *, comments: str, comment: str, update: str, is_mine: _Whose) -> str:
        """Creates the comment or replaces an existing one, and returns `created` or `updated`.

        Args:
            comments: Path of a merge request's comments.
            comment: Path of comments by id.
            update: HTTP method that replaces a comment.
            is_mine: Whether the token's owner wrote a comment. Anybody may quote one of ours.
        """

        def ours() -> list[dict[str, Any]]:
            marked = (entry for entry in self.listed(comments) if (entry["body"] or "").startswith(MARKER))
            return sorted(filter(is_mine, marked), key=lambda entry: entry["id"])

        done, existing = "updated", ours()
        if not existing:
            self.call("POST", comments, json={"body": text})
            # Two jobs at once create two comments. Both look again, and both keep the oldest.
            done, existing = "created", ours()
        for entry in existing[:1]:
            if entry["body"].strip() != text.strip():
                self.call(update, f"{comment}/{entry['id']}", json={"body": text})
        for entry in existing[1:]:
            self.call("DELETE", f"{comment}/{entry['id']}")
        return done


def is_of_fork(forge: str, environment: Mapping[str, str]) -> bool:
    """Whether the merge request of this job comes from another repository, or from a deleted one."""
    own, source = {
        "github": ("GITHUB_REPOSITORY", "HEAD_REPOSITORY"),
        "gitlab": ("CI_PROJECT_ID", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID"),
    }[forge]
    return _variable(environment, own) != environment.get(source)


def post(forge: str, environment: Mapping[str, str], commit: str, text: str) -> str:
    """Puts the comment on the merge request of this job, and returns a line that says what it did.

    Args:
        environment: Variables that the forge sets for its jobs.
        commit: The commit that the comment is about. At GitHub a workflow that runs after another workflow
            does not get the number of a fork's pull request. So this looks for the commit among the open pull
            requests. GitHub's own list of a commit's pull requests leaves out forks.

    Raises:
        OperationError: When the forge rejects it, or does not answer the last attempt either.
    """

    def attempt() -> str:
        put = _at_github(environment, commit) if forge == "github" else _at_gitlab(environment)
        if put:
            return f"comment {put(text)}"
        gone = f"no comment: no open pull request ends with {commit[:12]}"
        return f"{gone}, a newer commit has its own preview"

    # Every attempt starts over, so it sees a comment whose answer was lost.
    return _patiently(attempt)


def saved_in_pipeline(environment: Mapping[str, str], longest: int) -> bytes | None:
    """The file that a preview job of this GitLab pipeline saved, at most `longest` bytes of it. None without
    a file.

    Args:
        environment: Variables that GitLab sets for its jobs.
        longest: Greatest length in bytes.

    Raises:
        OperationError: When GitLab rejects it, or does not answer the last attempt either.
    """
    project = f"/projects/{_variable(environment, 'CI_PROJECT_ID')}"
    jobs = f"{project}/pipelines/{_variable(environment, 'CI_PIPELINE_ID')}/jobs"

    def attempt() -> bytes | None:
        api = _gitlab(environment)
        files = (
            api.content(f"{project}/jobs/{job['id']}/artifacts/{SAVED}", longest)
            for job in api.listed(jobs)
            if job["name"] in _PREVIEW_JOBS
        )
        return next((file for file in files if file is not None), None)

    return _patiently(attempt)


def _patiently(attempt: Callable[[], T]) -> T:
    try:
        return retrying(retry_if_exception_type(requests.RequestException), _ATTEMPTS)(attempt)
    except requests.RequestException as error:
        raise OperationError(f"{error}, {_ATTEMPTS} times; run the job again") from None


def _at_github(environment: Mapping[str, str], commit: str) -> Callable[[str], str] | None:
    """The function that comments on the open pull request with this newest commit. None without one."""
    api = _Api(
        _variable(environment, "GITHUB_API_URL"),
        {
            "Authorization": f"Bearer {_variable(environment, 'GITHUB_TOKEN')}",
            "Accept": "application/vnd.github+json",
        },
        "the job needs `permissions: pull-requests: write`",
    )
    repository = f"/repos/{_variable(environment, 'GITHUB_REPOSITORY')}"
    pulls = api.listed(f"{repository}/pulls")
    numbers = [pull["number"] for pull in pulls if pull["head"]["sha"] == commit]
    if not numbers:
        return None
    return partial(
        api.put,
        comments=f"{repository}/issues/{min(numbers)}/comments",
        comment=f"{repository}/issues/comments",
        update="PATCH",
        # GITHUB_TOKEN is a bot's.
        is_mine=lambda entry: entry["user"]["type"] == "Bot",
    )


def _at_gitlab(environment: Mapping[str, str]) -> Callable[[str], str]:
    """The function that comments on the merge request of this pipeline."""
    api = _gitlab(environment)
    project = _variable(environment, "CI_PROJECT_ID")
    notes = f"/projects/{project}/merge_requests/{_variable(environment, 'CI_MERGE_REQUEST_IID')}/notes"
    me = api.call("GET", "/user")["id"]
    return partial(
        api.put,
        comments=notes,
        comment=notes,
        update="PUT",
        is_mine=lambda entry: entry["author"]["id"] == me,
    )


def _gitlab(environment: Mapping[str, str]) -> _Api:
    return _Api(
        _variable(environment, "CI_API_V4_URL"),
        {"PRIVATE-TOKEN": _variable(environment, "GITLAB_TOKEN")},
        "GITLAB_TOKEN must be a project access token with the scope `api` and the role Reporter or higher",
    )


def _variable(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise OperationError(f"{name} is not set: a comment is posted from a job of the forge")
    return environment[name]
