"""Looks through a project."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cloud.compute import NETWORK, SUBNETWORK
from operations.clients import Clients
from operations.consumers import OwnProject, counted_here, off_elsewhere
from operations.errors import CallError
from operations.leftovers.footprint import Belonging, Footprint, Thing
from operations.leftovers.kinds import Bindings, Kind, kinds


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A leftover of the stack.

    Args:
        command: The command that deletes it. Empty if nobody has to.
        waits: Whether a resource that only may be the stack's must go first.
    """

    kind: Kind
    thing: Thing
    belonging: Belonging
    command: str
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The result of a search in a project.

    Args:
        project: Where.
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
    left: list[Leftover] = []
    unseen: list[str] = []
    off: list[str] = []
    remedies: dict[str, None] = {}
    for kind in kinds():
        title = several(kind.title)
        log(f"looking for {title} in {wanted.project}")
        clients.unreached.clear()
        found: list[Thing] = []
        try:
            for thing in kind.find(clients, wanted):
                found.append(thing)
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
        if nameless := sum(1 for thing in found if not thing.name):
            unseen.append(f"{title} in {wanted.project}: the answer has {nameless} without a name")
        # A part of a leftover goes with it.
        owners = {each.thing.name for each in left}
        for thing in found:
            belonging = wanted.belongs(thing) if thing.name else None
            if belonging and thing.owner not in owners:
                command = "" if thing.given_back else kind.command(thing, wanted.project)
                left.append(Leftover(kind=kind, thing=thing, belonging=belonging, command=command))
    return Findings(
        project=wanted.project,
        left=tuple(_waiting(left)),
        unseen=tuple(unseen),
        remedies=tuple(remedies),
        off=tuple(off),
    )


def _waiting(left: Sequence[Leftover]) -> list[Leftover]:
    """The leftovers, with a mark at networks and subnets whose deletion something in them blocks."""
    blocked: set[tuple[str, str]] = set()
    noted = []
    for each in left:
        waits = each.belonging.sure and (each.thing.type, each.thing.name) in blocked
        noted.append(replace(each, waits=waits))
        if waits or not each.belonging.sure:
            blocked |= {(NETWORK.type, each.thing.network), (SUBNETWORK.type, each.thing.subnet)}
    return noted


def several(title: str) -> str:
    """The plural of a kind's title."""
    if title.endswith("y"):
        return f"{title[:-1]}ies"
    return f"{title}es" if title.endswith("s") else f"{title}s"
