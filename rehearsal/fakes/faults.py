"""Faults: operations that a rehearsal lets fail on purpose, and how they fail."""

from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from rehearsal.errors import RehearsalError

Operation = Literal["creation", "update", "deletion"]
# After a fault of this kind the resource exists, also in the state, and counts as failed. At a deletion the
# kind is like `refused`.
PARTIAL: Final = "partial"
# Providers that can report a partial failure. The one for dynamic resources in Python cannot.
_REPORT_PARTIAL: Final = ("gcp:", "kubernetes:")
# The message of every kind of fault, in Google's own words. The first two are the rehearsal's own. The last
# one is from Google's provider, when it cannot read a resource that it has just written.
KINDS: Final[Mapping[str, str]] = {
    "refused": "the rehearsal lets the {operation} of {name} fail",
    "orphan": "the rehearsal loses the answer to the {operation} of {name}, which is done all the same",
    "403": "googleapi: Error 403: The caller does not have permission, forbidden",
    "409": "googleapi: Error 409: There were concurrent policy changes. Please retry the whole "
    "read-modify-write with exponential backoff., aborted",
    "429": "googleapi: Error 429: Quota exceeded for quota metric 'Read requests' and limit 'Read requests "
    "per minute' of service 'cloudresourcemanager.googleapis.com' for consumer 'project_number:1234567890'., "
    "rateLimitExceeded",
    "quota": "googleapi: Error 403: Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 32.0 globally., quotaExceeded",
    "time-out": "timeout while waiting for state to become 'DONE' (last state: 'RUNNING', timeout: 20m0s)",
    # This kind is the last one: a resource that exists meets no further fault at its creation.
    PARTIAL: "Error when reading or editing {name}: googleapi: Error 503: The service is currently "
    "unavailable., backendError",
}


def kinds_of(type_token: str) -> list[str]:
    """The kinds of faults that a resource of a type can meet."""
    return [kind for kind in KINDS if kind != PARTIAL or type_token.startswith(_REPORT_PARTIAL)]


class InjectedFault(RehearsalError):
    """A fault has been triggered. The message is the platform's."""


class Faults:
    """The faults of one rehearsal.

    Attributes:
        triggered: The resource's name and the message of every fault that has been triggered, in order.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], deque[tuple[str, str]]] = defaultdict(deque)
        self.triggered: list[tuple[str, str]] = []

    def add(
        self,
        names: Iterable[str],
        text: str = "",
        times: int = 1,
        *,
        kind: str = "refused",
        at: Operation = "creation",
    ) -> None:
        """Lets an operation on these resources fail, after the faults that were added before.

        Args:
            names: Logical names of the resources.
            text: One line to fail with in place of the kind's message.
            times: How many times in a row the operation fails.
            kind: One of `KINDS`. A fault that is `orphan` or `partial` comes after the operation is done.
            at: The operation.
        """
        for name in names:
            message = text or KINDS[kind].format(operation=at, name=name)
            self._texts[name, at] += [(kind, message)] * times

    @contextmanager
    def trigger(self, name: str, at: Operation) -> Generator[str]:
        """A context around an operation, in which the operation's next fault takes effect.

        Yields:
            Why the resource counts as failed although it is written. Empty if it does not.

        Raises:
            InjectedFault: Before the operation, or after it if the fault leaves an orphan.
        """
        if not (texts := self._texts.get((name, at))):
            yield ""
            return
        kind, message = texts.popleft()
        self.triggered.append((name, message))
        if kind == PARTIAL and at != "deletion":
            yield message
            return
        if kind == "orphan":
            yield ""
        raise InjectedFault(message)

    @property
    def pending(self) -> set[str]:
        """Names of the resources with a fault that has not been triggered yet."""
        return {name for (name, _), texts in self._texts.items() if texts}
