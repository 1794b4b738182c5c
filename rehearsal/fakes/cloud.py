"""The fake cloud, in which both fake providers create resources."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

from cloud.services import artifactregistry, container, secretmanager, storage
from rehearsal.errors import RehearsalError

BUCKET: Final = storage.BUCKET.type
CLUSTER: Final = container.CLUSTER.type
NODE_POOL: Final = container.NODE_POOL.type


class Rejected(RehearsalError):
    """The platform rejects an operation. The message is the platform's."""


class Unready(Rejected):
    """A resource was written and is not ready. The engine keeps it, and the next `up` waits for it."""

    def __init__(self, reason: str, item_id: str, outputs: dict[str, Any]) -> None:
        super().__init__(reason)
        self.id, self.outputs = item_id, outputs


@dataclass
class Item:
    """A resource that exists. A Kubernetes object has the `selfLink` of its cluster."""

    type: str
    id: str
    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    cluster: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity on the platform: cluster, type and id."""
        return self.cluster or "", self.type, self.id

    def is_named(self, reference: str) -> bool:
        """Whether a reference is to this item. It is an id, a name, an address or a link."""
        keys = ("selfLink", "name", "email", "secretId", "accountId", "repositoryId")
        names = {self.id, *(str(self.outputs[key]) for key in keys if key in self.outputs)}
        return reference in names or any(name.endswith(f"/{reference}") for name in names)


@dataclass
class FakeCloud:
    """A platform with an empty project.

    Args:
        outcome: How training jobs end. Only a RayJob can be stopped, or rejected by Ray's operator.
        written_buckets: Ids of the buckets with objects that a job has written.
        silent_webhook: How many calls of Kueue's webhook get no answer yet.
        foreign: Items that exist and are not the stack's. It may refer to them, and cannot change them.
        constraints: Names of constraints that policies of the organisation enforce.
        is_slow: Whether a new API, account or definition refuses its first call.
        on_write: Called with an item of Google's that was created or updated. May raise Rejected.
        on_removal: Called with an item that is deleted.
    """

    outcome: Literal["Complete", "Failed", "Stopped", "Rejected"] = "Complete"
    written_buckets: set[str] = field(default_factory=set)
    silent_webhook: int = 0
    foreign: list[Item] = field(default_factory=list)
    constraints: tuple[str, ...] = ()
    is_slow: bool = False
    on_write: Callable[[Item], None] = lambda _item: None
    on_removal: Callable[[Item], None] = lambda _item: None
    _called: set[str] = field(default_factory=set)
    _items: dict[tuple[str, str, str], Item] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def items(self) -> list[Item]:
        """Everything that exists."""
        with self._lock:
            return list(self._items.values())

    def add(self, item: Item, *, adopts: bool = False) -> None:
        """Adds an item.

        Args:
            item: The item.
            adopts: Whether it may replace an item of the same type and id.

        Raises:
            Rejected: If there is such an item, and it may not.
        """
        with self._lock:
            is_taken = item.key in self._items and not adopts
            if is_taken or any(other.key == item.key for other in self.foreign):
                raise Rejected(f"Error 409: {item.type} {item.id!r} already exists")
            self._items[item.key] = item

    def find(self, key: tuple[str, str, str]) -> Item | None:
        """The item with an identity, None if it does not exist."""
        with self._lock:
            return self._items.get(key)

    def named(self, type_token: str, reference: str) -> Item | None:
        """The item of a type that a reference is to, None if it does not exist."""
        known = chain(self.of_type(type_token), self.foreign)
        return next((item for item in known if item.type == type_token and item.is_named(reference)), None)

    def named_in(self, message: str) -> list[Item]:
        """The items that a message gives as the reason of a failure."""
        texts = (
            "{0.type} {0.id!r} already exists",
            "is already being used by {0.id}",
            "conflicts with existing subnetwork {0.id!r}",
        )
        return [item for item in self.items if any(text.format(item) in message for text in texts)]

    def of_type(self, type_token: str, cluster: str | None = None) -> Iterator[Item]:
        """All items of a type, or those in a cluster."""
        for item in self.items:
            if item.type == type_token and cluster in (None, item.cluster):
                yield item

    def remove(self, item: Item) -> None:
        """Removes an item with what is in it.

        A cluster goes with its objects and node pools, a secret with its versions, and a repository with
        its members.
        """
        self.on_removal(item)
        with self._lock:
            self._items.pop(item.key, None)
            self.written_buckets.discard(item.id)
            gone: list[tuple[str, str, str]] = []
            if item.type == CLUSTER:
                gone += [key for key in self._items if key[0] == item.outputs["selfLink"]]
                gone += [pool.key for pool in self.pools_of(item)]
            if item.type == secretmanager.SECRET.type:
                versions = self.of_type(secretmanager.VERSION.type)
                gone += [version.key for version in versions if item.is_named(str(version.inputs["secret"]))]
            if item.type == artifactregistry.REPOSITORY.type:
                members = self.of_type(artifactregistry.REPOSITORY_MEMBER.type)
                gone += [member.key for member in members if _is_member_of(member, item)]
            for key in gone:
                del self._items[key]

    def pools_of(self, cluster: Item) -> list[Item]:
        """The node pools of a cluster."""
        return [pool for pool in self.of_type(NODE_POOL) if cluster.is_named(str(pool.inputs["cluster"]))]

    def webhook_answers(self) -> bool:
        """Whether Kueue's webhook answers this call."""
        with self._lock:
            if self.silent_webhook == 0:
                return True
            self.silent_webhook -= 1
            return False

    def is_too_early(self, name: str) -> bool:
        """Whether this is the first call of a new API, account or definition, which refuses it."""
        with self._lock:
            is_first = name not in self._called
            self._called.add(name)
            return self.is_slow and is_first

    def run_job(self) -> None:
        """Notes that a training job runs: from now on every bucket has checkpoints."""
        self.written_buckets |= {bucket.id for bucket in self.of_type(BUCKET)}


def _is_member_of(member: Item, repository: Item) -> bool:
    """Whether a member's right is on this repository."""
    place = (repository.inputs["project"], repository.inputs["location"], repository.inputs["repositoryId"])
    return (member.inputs["project"], member.inputs["location"], member.inputs["repository"]) == place
