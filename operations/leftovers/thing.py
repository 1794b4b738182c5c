"""Something that exists in a project."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something that exists.

    Args:
        type: Type token of the resource that a program declares it by, empty for what others make.
        location: Zone, region, or empty where it has none.
        parent: What it is a part of: the cluster of a node pool, the resource of a role binding.
        network: Name of the VPC that it is in, empty for none, as of the subnet.
        owner: Address of the service account, or name of the service, that it is about.
        detail: What else a person wants to know before it is deleted.
        given_back: Who gives it back by itself, and when; empty when somebody must delete it.
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


def last(path: Any) -> str:
    """The last part of a path or URL."""
    return str(path or "").rpartition("/")[2]
