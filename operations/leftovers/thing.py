"""Something that exists in a project, and a kind of such things."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from operations.clients import Clients

Wait = Callable[[Callable[[], dict[str, Any]]], None]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where to look.

    Args:
        clients: Google's APIs.
        project: Project id.
        regions: Regions of what is not listed for a whole project.
        repositories: Repositories of images, `projects/P/locations/L/repositories/R`, that are not the
            stack's own and whose access lists it may have written to.
    """

    clients: Clients
    project: str
    regions: tuple[str, ...]
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something that exists.

    Args:
        kind: What it is.
        name: Its name, for people and for gcloud.
        location: Zone, region, or empty where it has none.
        parent: What it is a part of: the cluster of a node pool, the resource of a role binding.
        labels: Its labels.
        network: Name of the VPC that it is in, empty for none.
        subnet: Name of the subnet that it is in, empty for none.
        cluster: Name of the GKE cluster that it was made for, empty when it does not say.
        owner: Address of the service account, or name of the service, that it is about.
        detail: What else a person wants to know before it is deleted.
        keeper: Who gives it back by itself, empty when somebody must delete it.
    """

    kind: "Kind"
    name: str
    location: str = ""
    parent: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    subnet: str = ""
    cluster: str = ""
    owner: str = ""
    detail: str = ""
    keeper: str = ""


class Kind(Protocol):
    """A kind of things: how they are found and how one is deleted."""

    @property
    def title(self) -> str:
        """What one is called."""
        ...

    @property
    def type(self) -> str:
        """Type token of the resource that the program declares, empty for what others make."""
        ...

    def find(self, place: Place) -> Iterator[Thing]:
        """All of them that there are.

        Raises:
            CallError: When they cannot be listed.
        """
        ...

    def command(self, place: Place, thing: Thing) -> str:
        """The gcloud command that deletes one."""
        ...

    def delete(self, place: Place, thing: Thing, wait: Wait) -> None:
        """Deletes one.

        Args:
            place: Where it is.
            thing: What.
            wait: Asks for an operation until it is done.

        Raises:
            OperationError: When it is not deleted.
        """
        ...


def last(path: Any) -> str:
    """The last part of a path or URL."""
    return str(path or "").rpartition("/")[2]
