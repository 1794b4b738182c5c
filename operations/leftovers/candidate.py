"""A resource that exists in a project, and why it is a stack's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from cloud.services.container import NODE_POOL


class Identity(NamedTuple):
    """What identifies a resource in a project. A node pool's cluster is part of it."""

    type: str
    name: str
    place: str = ""
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A resource that exists in the project and may be a leftover.

    Args:
        type: Type token by which a program declares it. Empty for what GKE and Cloud Run create.
        location: Zone or region, empty for a global resource.
        parent: The cluster of a node pool, or the resource of a role binding.
        network: Name of its VPC network, empty for none.
        subnet: Name of its subnet, empty for none.
        owner: Address of the service account, or name of the service, that it belongs to.
        detail: What else a person wants to know before deleting it.
        given_back: Which service deletes it by itself, and when. Empty if somebody must delete it.
        created: When it was created, None if Google does not say.
    """

    type: str
    name: str
    location: str = ""
    parent: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    subnet: str = ""
    owner: str = ""
    detail: str = ""
    given_back: str = ""
    created: datetime | None = None

    @property
    def identity(self) -> Identity:
        """What identifies it among the project's resources."""
        cluster = self.parent if self.type == NODE_POOL.type else ""
        return Identity(self.type, self.name, self.location, cluster)


class Belonging(NamedTuple):
    """Why a resource is the stack's, or why it only may be."""

    why: str
    sure: bool = True


def perhaps(why: str) -> Belonging:
    return Belonging(why, sure=False)
