"""Searches a project for leftovers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cloud.services.compute import NETWORK, SUBNETWORK
from operations.errors import CallError
from operations.google.clients import Clients
from operations.google.consumers import OwnProject, counted_here, off_elsewhere
from operations.leftovers.candidate import Belonging, Candidate
from operations.leftovers.footprint import Footprint
from operations.leftovers.kinds import Bindings, Kind, kinds


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A leftover of the stack.

    Args:
        command: The command that deletes it. Empty if nobody has to.
        waits: Whether a resource that only may be the stack's must go first.
    """

    kind: Kind
    candidate: Candidate
    belonging: Belonging
    command: str
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The result of a search in a project.

    Args:
        project: Id of the project.
        left: The leftovers, in the order of deletion.
        unseen: Kinds that could not be listed, and why.
        remedies: What to do so that they can be listed.
        off: Kinds that cannot exist, because their API is off in the project.
    """

    project: str
    left: tuple[Leftover, ...]
    unseen: tuple[str, ...]
    remedies: tuple[str, ...]
    off: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """Whether every kind was listed and nothing is left."""
        return not self.left and not self.unseen


def search(clients: Clients, wanted: Footprint, log: Callable[[str], None]) -> Findings:
    """Searches for every kind. A kind that cannot be listed does not stop the others."""
    project = OwnProject(clients, wanted.project)
    wanted = replace(wanted, living=_clusters(clients, wanted.project))
    left: list[Leftover] = []
    unseen: list[str] = []
    off: list[str] = []
    remedies: dict[str, None] = {}
    for kind in _kinds(wanted):
        title = several(kind.title)
        log(f"looking for {title} in {wanted.project}")
        clients.unreached.clear()
        listed: list[Candidate] = []
        try:
            for candidate in kind.find(clients, wanted):
                listed.append(candidate)
        except CallError as error:
            # Role bindings exist even if the API that shows them is off.
            if error.disabled and project.is_called(error.consumer) and not isinstance(kind, Bindings):
                off.append(kind.title)
            else:
                reason = f"{error}; {off_elsewhere(error)}" if error.disabled else str(error)
                unseen.append(f"{title} in {wanted.project}: {reason}")
                if error.disabled:
                    remedies[counted_here(error, wanted.project)] = None
        if clients.unreached:
            places = ", ".join(sorted(clients.unreached))
            unseen.append(f"{title} in {places} of {wanted.project}: no answer from there")
        if nameless := sum(1 for candidate in listed if not candidate.name):
            unseen.append(f"{title} in {wanted.project}: the answer has {nameless} without a name")
        # A part of a leftover goes with it.
        owners = {leftover.candidate.name for leftover in left}
        for candidate in listed:
            belonging = wanted.belongs(candidate) if candidate.name else None
            if belonging and candidate.owner not in owners:
                command = "" if candidate.given_back else kind.command(candidate, wanted.project)
                left.append(Leftover(kind=kind, candidate=candidate, belonging=belonging, command=command))
    return Findings(
        project=wanted.project,
        left=tuple(_waiting(left)),
        unseen=tuple(unseen),
        remedies=tuple(remedies),
        off=tuple(off),
    )


def _clusters(clients: Clients, project: str) -> frozenset[str] | None:
    """The first digits of the ids of the project's clusters. None if they cannot be listed."""
    try:
        answer = clients.call(
            "container.v1", "projects.locations.clusters.list", parent=f"projects/{project}/locations/-"
        )
    except CallError:
        return None
    return frozenset(str(cluster.get("id") or "")[:8] for cluster in answer.get("clusters") or ())


def _kinds(wanted: Footprint) -> Iterator[Kind]:
    """The kinds that the stack may have left in the project."""
    return (kind for kind in kinds() if not wanted.titles or kind.title in wanted.titles)


def _waiting(left: Sequence[Leftover]) -> list[Leftover]:
    """The leftovers, with a mark at networks and subnets whose deletion something in them blocks."""
    blocked: set[tuple[str, str]] = set()
    noted = []
    for leftover in left:
        waits = leftover.belonging.sure and (leftover.candidate.type, leftover.candidate.name) in blocked
        noted.append(replace(leftover, waits=waits))
        if waits or not leftover.belonging.sure:
            blocked |= {
                (NETWORK.type, leftover.candidate.network),
                (SUBNETWORK.type, leftover.candidate.subnet),
            }
    return noted


def several(title: str) -> str:
    """The plural of a kind's title."""
    if title.endswith("y"):
        return f"{title[:-1]}ies"
    return f"{title}es" if title.endswith("s") else f"{title}s"
