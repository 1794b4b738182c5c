"""Looks through the project."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cloud.serviceaccount import ACCOUNT
from operations.errors import CallError
from operations.leftovers.bindings import Bindings
from operations.leftovers.footprint import Footprint
from operations.leftovers.kinds import listed_kinds
from operations.leftovers.thing import Kind, Place, Thing

# Google's words for an API that is off: then there is nothing of it either.
_OFF: Final = ("it is disabled", "has not been used in project")


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that the stack left behind.

    Args:
        thing: What.
        why: Why it is the stack's.
        sure: False when it may be another stack's.
        command: What deletes it; empty when nobody has to.
    """

    thing: Thing
    why: str
    sure: bool
    command: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a look through the project showed.

    Args:
        left: What was left, in the order of deletion.
        unseen: What could not be looked at, and why.
        off: Kinds whose API is off.
    """

    left: tuple[Leftover, ...]
    unseen: tuple[str, ...]
    off: tuple[str, ...]


def kinds() -> tuple[Kind, ...]:
    """Every kind in the order of deletion: a service account when nothing is left that names it."""
    accounts = [kind for kind in listed_kinds() if kind.type == ACCOUNT.type]
    return (*(kind for kind in listed_kinds() if kind not in accounts), Bindings(), *accounts)


def search(place: Place, wanted: Footprint, log: Callable[[str], None]) -> Findings:
    """Looks for every kind; one that cannot be looked for does not stop the others.

    Args:
        place: Where.
        wanted: For what.
        log: Told what is looked for.
    """
    left: list[Leftover] = []
    unseen: list[str] = []
    off: list[str] = []
    for kind in kinds():
        log(f"looking for {_several(kind.title)}")
        try:
            found = [*kind.find(place)]
        except CallError as error:
            if error.refused and any(words in error.reason for words in _OFF):
                off.append(kind.title)
            else:
                unseen.append(f"{_several(kind.title)}: {error}")
            continue
        # What is a part of something that was left behind goes with it.
        owners = {each.thing.name for each in left}
        rest = (thing for thing in found if thing.owner not in owners)
        left += [leftover for thing in rest if (leftover := _leftover(place, wanted, thing))]
    return Findings(left=tuple(left), unseen=tuple(unseen), off=tuple(off))


def _several(title: str) -> str:
    if title.endswith("y"):
        return f"{title[:-1]}ies"
    return f"{title}es" if title.endswith("s") else f"{title}s"


def _leftover(place: Place, wanted: Footprint, thing: Thing) -> Leftover | None:
    belonging = wanted.belongs(thing)
    if belonging is None:
        return None
    command = "" if thing.keeper else thing.kind.command(place, thing)
    return Leftover(thing=thing, why=belonging.why, sure=belonging.sure, command=command)
