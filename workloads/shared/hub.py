"""Reads from the Hugging Face Hub: waits while it is in trouble, says what is wrong, finds commits."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import httpx2
import huggingface_hub
from huggingface_hub import errors
from huggingface_hub.utils import parse_ratelimit_headers
from huggingface_hub.utils._http import default_client_factory, hf_request_event_hook

from shared.errors import InputError, PassingError, one_line
from shared.patience import RETRY_BUDGET

T = TypeVar("T")

# Seconds without a byte. The library's own client would wait for ever.
TIMEOUT = httpx2.Timeout(30).as_dict()
# Paths of what a start needs. Nobody waits for the statistics that the libraries send.
NEEDED = re.compile("^/api/(models|datasets)/|/resolve/")
# The downloader of large files retries by itself, in silence and for 6 minutes by default.
os.environ.setdefault("HF_XET_CLIENT_RETRY_MAX_DURATION", "30s")


class Source(Protocol):
    """A model or a data set of the Hub. `revision` is a branch, a tag, a commit, or None: the main branch."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> str | None: ...


def read(source: Source, action: Callable[[], T]) -> T:
    """Return the result of `action`, which asks the Hub for a model or data set. Wait as long as a start may.

    Raises:
        InputError: The Hub refuses it or does not have it.
        PassingError: The time to wait is up.
    """
    # Each request is retried here, before the libraries retry it in their own ways, in silence or for long.
    huggingface_hub.set_client_factory(_retrying_client)
    try:
        return RETRY_BUDGET.call(_named(source), action, _broke_off)
    except _BudgetSpent as end:
        raise end.error from None
    except Exception as error:
        if problem := _problem(source, error):
            raise InputError(f"{_named(source)} {problem}") from error
        raise
    finally:
        huggingface_hub.set_client_factory(default_client_factory)


def commits(sources: Mapping[str, Source], recorded: Mapping[str, str | None] | None) -> dict[str, str]:
    """The commit of each source: the recorded one, or else the current commit of its revision.

    Prints a line for a revision that names another commit than the recorded one.
    """
    commit_of: dict[str, str] = {}
    for key, source in sources.items():
        kept = (recorded or {}).get(key)
        try:
            now = _commit(source)
        except InputError:
            if kept is None:
                raise
            now = kept  # The branch is gone. The commit may still be there.
        if kept and now != kept:
            moved = f"{_named(source)} has moved on since this run began: {kept} -> {now}"
            print(f"{moved}; the run keeps {kept}", flush=True)
        commit_of[key] = kept or now
    return commit_of


def _commit(source: Source) -> str:
    kind, name, revision = source.kind, source.name, source.revision
    return read(
        source, lambda: huggingface_hub.resolve_revision(name, repo_type=kind, revision=revision).resolved
    )


def _named(source: Source) -> str:
    return f"{source.kind.replace('dataset', 'data set')} {source.name}"


class _TemporaryError(Exception):
    """The Hub's answer may be another one later. `asked` is how many seconds it wants to be left alone."""

    def __init__(self, response: httpx2.Response):
        super().__init__(f"{response.status_code} {response.reason_phrase}")
        limit, after = parse_ratelimit_headers(response.headers), response.headers.get("retry-after", "")
        self.asked = int(after) if re.fullmatch("[0-9]{1,9}", after) else 0
        if limit and limit.remaining == 0:
            self.asked = limit.reset_in_seconds


class _BudgetSpent(BaseException):
    """The time is up. It is no Exception: after one, datasets takes another commit's rows from its cache."""

    def __init__(self, error: PassingError):
        self.error = error


class _RetryingClient(httpx2.Client):
    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if not (NEEDED.search(request.url.path) or options.get("stream")):
            return super().send(request, **options)
        timeout = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {part: timeout.get(part) or limit for part, limit in TIMEOUT.items()}

        def once() -> httpx2.Response:
            response = super(_RetryingClient, self).send(request, **options)
            if response.status_code in (408, 429) or response.status_code >= 500:
                response.close()
                raise _TemporaryError(response)
            return response

        # Without the query, which may hold a signature.
        place = f"{request.method} {request.url.copy_with(query=None)}"
        try:
            return RETRY_BUDGET.call(
                place, once, lambda error: isinstance(error, _TemporaryError | httpx2.TransportError)
            )
        except PassingError as error:
            raise _BudgetSpent(error) from error


def _retrying_client() -> httpx2.Client:
    return _RetryingClient(event_hooks={"request": [hf_request_event_hook]}, follow_redirects=True)


def _broke_off(error: BaseException) -> bool:
    """Whether a download ended half-way: its connection broke, or the downloader of large files gave up."""
    broken = any(isinstance(link, httpx2.TransportError) for link in _chain(error))
    return broken or "CAS Client Error" in str(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _problem(source: Source, error: Exception) -> str | None:
    """What is wrong with the recipe or the token, or None if neither is the cause."""
    causes = list(_chain(error))

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if is_a(errors.GatedRepoError):
        token = "the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "no token (set HF_TOKEN)"
        page = "https://huggingface.co/" + ("datasets/" if source.kind == "dataset" else "") + source.name
        return (
            f"is gated and {token} gives no access: accept its licence at {page} with the account the token "
            "belongs to"
        )
    if is_a(errors.RevisionNotFoundError):
        return (
            f"has no revision {source.revision} on the Hub, or no longer: name one that it has in a recipe, "
            "with a --run of its own"
        )
    if is_a(errors.RepositoryNotFoundError, errors.HFValidationError, errors.RemoteEntryNotFoundError):
        return "cannot be found, or the token in HF_TOKEN may not see it"
    # The Hub answers a token that it knows with 403 or 404.
    responses = [getattr(cause, "response", None) for cause in causes]
    if any(getattr(response, "status_code", None) == 401 for response in responses):
        return (
            "cannot be read, since the Hub does not know the token in HF_TOKEN; make one that reads at "
            "https://huggingface.co/settings/tokens"
        )
    if is_a(errors.OfflineModeIsEnabled):
        return "is not in the cache, and HF_HUB_OFFLINE forbids to ask the Hub"
    return f"cannot be loaded: {one_line(error)}" if is_a(OSError, ValueError) else None
