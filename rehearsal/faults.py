"""Operations that are to fail, and how."""

from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from rehearsal.errors import RehearsalError

Operation = Literal["creation", "update", "deletion"]
# The kind of fault after which a thing is there, in the state too, and counts as failed. At a deletion it is
# like `refused`.
PARTIAL: Final = "partial"
# Providers that can say so; that of dynamic resources in Python cannot.
_SAY_PARTIAL: Final = ("gcp:", "kubernetes:")
# What Google says, in its own words, by the kind of fault. The first two are the rehearsal's own; the last
# is what Google's provider says when it cannot read what it has just written.
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
    # The last: what is made meets no further fault at its creation.
    PARTIAL: "Error when reading or editing {name}: googleapi: Error 503: The service is currently "
    "unavailable., backendError",
}


def kinds_of(type_token: str) -> list[str]:
    """The kinds of faults that a resource of a type can meet."""
    return [kind for kind in KINDS if kind != PARTIAL or type_token.startswith(_SAY_PARTIAL)]


class Struck(RehearsalError):
    """A fault has struck; the text is what the platform would say."""


class Faults:
    """The faults of one rehearsal.

    Attributes:
        struck: Names of the resources that have met one, and what it said, in their order.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], deque[tuple[str, str]]] = defaultdict(deque)
        self.struck: list[tuple[str, str]] = []

    def add(
        self,
        names: Iterable[str],
        text: str = "",
        times: int = 1,
        *,
        kind: str = "refused",
        at: Operation = "creation",
    ) -> None:
        """Lets an operation on each of these resources fail, whenever the engine comes to it.

        Args:
            text: What the platform says, in one line, in place of the kind's; it says it `times` times.
            kind: One of `KINDS`, after those added before. What is an orphan or partial has been done.
        """
        for name in names:
            said = text or KINDS[kind].format(operation=at, name=name)
            self._texts[name, at] += [(kind, said)] * times

    @contextmanager
    def strike(self, name: str, at: Operation) -> Generator[str]:
        """Around an operation: a fault of it is used up and takes its effect.

        Yields:
            Why what is made or changed counts as failed; empty when it does not.

        Raises:
            Struck: Before the operation, or of an orphan after it.
        """
        if not (texts := self._texts.get((name, at))):
            yield ""
            return
        kind, said = texts.popleft()
        self.struck.append((name, said))
        if kind == PARTIAL and at != "deletion":
            yield said
            return
        if kind == "orphan":
            yield ""
        raise Struck(said)

    @property
    def waiting(self) -> set[str]:
        """Names of the resources whose fault has not struck yet."""
        return {name for (name, _), texts in self._texts.items() if texts}
