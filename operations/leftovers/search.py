"""Looks through a project."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cloud.compute import NETWORK, SUBNETWORK
from operations.clients import Clients
from operations.errors import CallError
from operations.leftovers.footprint import Belonging, Footprint, Thing
from operations.leftovers.kinds import Bindings, Kind, kinds


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that the stack left behind.

    Args:
        command: Deletes it; empty when nobody has to.
        waits: Whether something that is only perhaps the stack's must go before it.
    """

    kind: Kind
    thing: Thing
    belonging: Belonging
    command: str
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a look through a project showed.

    Args:
        project: Where.
        left: What was left, in the order of deletion.
        unseen: What was not seen, and why.
        remedies: How it can be seen.
        off: Kinds that cannot exist, as their API is off in the project.
    """

    project: str
    left: tuple[Leftover, ...]
    unseen: tuple[str, ...]
    remedies: tuple[str, ...]
    off: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """Whether everything was looked at and nothing was left."""
        return not self.left and not self.unseen


class _Project:
    """Tells the project that is looked through from others by number, as Google's errors name it."""

    def __init__(self, clients: Clients, id: str) -> None:
        self._clients, self._id = clients, id
        self._number: str | None = None

    def is_called(self, name: str) -> bool:
        """Whether a name, which is an id or a number, is this project's; what cannot be found out is not."""
        if self._number is None and name not in ("", self._id):
            self._number = self._ask()
        return bool(name) and name in (self._id, self._number)

    def _ask(self) -> str:
        try:
            answer = self._clients.call(
                "cloudresourcemanager.v3", "projects.get", name=f"projects/{self._id}"
            )
        except CallError:
            return ""
        return str(answer.get("name", "")).rpartition("/")[2]


def search(clients: Clients, wanted: Footprint, log: Callable[[str], None]) -> Findings:
    """Looks for every kind; one that cannot be looked for does not stop the others."""
    project = _Project(clients, wanted.project)
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
            # Roles are there whether or not the API that shows them is enabled.
            if error.disabled and project.is_called(error.consumer) and not isinstance(kind, Bindings):
                off.append(kind.title)
            else:
                unseen.append(f"{title} in {wanted.project}: {_why(error)}")
                remedies |= dict.fromkeys(_remedies(error, wanted.project))
        if clients.unreached:
            places = ", ".join(sorted(clients.unreached))
            unseen.append(f"{title} in {places} of {wanted.project}: no answer from there")
        if nameless := sum(1 for thing in found if not thing.name):
            unseen.append(f"{title} in {wanted.project}: the answer has {nameless} without a name")
        # What is a part of something that was left behind goes with it.
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
    """The same, with a note at networks and subnets that something in them keeps from being deleted."""
    blocked: set[tuple[str, str]] = set()
    noted = []
    for each in left:
        waits = each.belonging.sure and (each.thing.type, each.thing.name) in blocked
        noted.append(replace(each, waits=waits))
        if waits or not each.belonging.sure:
            blocked |= {(NETWORK.type, each.thing.network), (SUBNETWORK.type, each.thing.subnet)}
    return noted


def _why(error: CallError) -> str:
    if not error.disabled:
        return str(error)
    where = f"project {error.consumer}" if error.consumer else "a project that Google does not name"
    return f"{error}; {error.disabled} is not enabled in {where}"


def _remedies(error: CallError, project: str) -> list[str]:
    """What makes an API answer that is off in the project that the credentials count their calls for."""
    if not error.disabled:
        return []
    enable = f"gcloud services enable {error.disabled} --project {error.consumer or project}"
    return [
        f"your calls count for another project than {project}: "
        f"gcloud auth application-default set-quota-project {project}; with a service account's key: {enable}"
    ]


def several(title: str) -> str:
    """What several of a kind are called."""
    if title.endswith("y"):
        return f"{title[:-1]}ies"
    return f"{title}es" if title.endswith("s") else f"{title}s"
