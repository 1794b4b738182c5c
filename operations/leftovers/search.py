"""Looks through the project."""

from collections.abc import Callable
from dataclasses import dataclass

from operations.clients import Clients
from operations.errors import CallError
from operations.leftovers.footprint import Belonging, Footprint, Thing
from operations.leftovers.kinds import Kind, kinds


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that the stack left behind; what deletes it is empty when nobody has to."""

    kind: Kind
    thing: Thing
    belonging: Belonging
    command: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was left, in the order of deletion; what was not seen and why; kinds whose API is off."""

    left: tuple[Leftover, ...]
    unseen: tuple[str, ...]
    off: tuple[str, ...]


def search(clients: Clients, wanted: Footprint, log: Callable[[str], None]) -> Findings:
    """Looks for every kind; one that cannot be looked for does not stop the others."""
    left: list[Leftover] = []
    unseen: list[str] = []
    off: list[str] = []
    for kind in kinds():
        log(f"looking for {several(kind.title)}")
        clients.unreached.clear()
        try:
            found = [*kind.find(clients, wanted)]
        except CallError as error:
            # Of an API that is off there is nothing either.
            if error.disabled:
                off.append(kind.title)
            else:
                unseen.append(f"{several(kind.title)}: {error}")
            continue
        if clients.unreached:
            unseen.append(
                f"{several(kind.title)} in {', '.join(sorted(clients.unreached))}: no answer from there"
            )
        # What is a part of something that was left behind goes with it.
        owners = {each.thing.name for each in left}
        for thing in found:
            belonging = wanted.belongs(thing)
            if belonging and thing.owner not in owners:
                command = "" if thing.given_back else kind.command(thing, wanted.project)
                left.append(Leftover(kind=kind, thing=thing, belonging=belonging, command=command))
    return Findings(left=tuple(left), unseen=tuple(unseen), off=tuple(off))


def several(title: str) -> str:
    """What several of a kind are called."""
    if title.endswith("y"):
        return f"{title[:-1]}ies"
    return f"{title}es" if title.endswith("s") else f"{title}s"
