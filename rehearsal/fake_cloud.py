"""What exists in the fake cloud, which both fake providers share."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cloud import container, secretmanager, storage
from rehearsal.errors import RehearsalError

BUCKET: Final = storage.BUCKET.type
CLUSTER: Final = container.CLUSTER.type
NODE_POOL: Final = container.NODE_POOL.type


class Rejected(RehearsalError):
    """The platform rejects an operation; the text is what the platform would say."""


class Unready(Rejected):
    """What has been written is there and not ready: the engine keeps it, and the next `up` waits for it."""

    def __init__(self, reason: str, item_id: str, outputs: dict[str, Any]) -> None:
        super().__init__(reason)
        self.id, self.outputs = item_id, outputs


@dataclass
class Item:
    """One thing that exists, with its logical name; a Kubernetes object has the `selfLink` of its cluster."""

    type: str
    id: str
    name: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    cluster: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity on the platform."""
        return self.cluster or "", self.type, self.id

    def is_named(self, reference: str) -> bool:
        """Whether a reference such as an id, a name, an address or a link means this item."""
        keys = ("selfLink", "name", "email", "secretId", "accountId", "repositoryId")
        names = {self.id, *(str(self.outputs[key]) for key in keys if key in self.outputs)}
        return reference in names or any(name.endswith(f"/{reference}") for name in names)


@dataclass
class FakeCloud:
    """A platform with nothing in it but an empty project.

    Args:
        outcome: How training jobs end; only on Ray they may be stopped, or rejected by its operator.
        written_buckets: Ids of the buckets that a job has written objects into.
        silent_webhook: Calls of Kueue's webhook that get no answer yet.
        is_slow: Whether what was made a moment ago refuses its first call.
        on_write: Is told of what Google has made or changed, and may raise Rejected.
        on_removal: Is told of what goes.
    """

    outcome: Literal["Complete", "Failed", "Stopped", "Rejected"] = "Complete"
    written_buckets: set[str] = field(default_factory=set)
    silent_webhook: int = 0
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
        """Brings an item into existence.

        Args:
            item: The item.
            adopts: Whether it takes the place of one of that type and id.

        Raises:
            Rejected: When there is such a one, and it may not.
        """
        with self._lock:
            if item.key in self._items and not adopts:
                raise Rejected(f"Error 409: {item.type} {item.id!r} already exists")
            self._items[item.key] = item

    def find(self, key: tuple[str, str, str]) -> Item | None:
        """The item of that identity, if it exists."""
        with self._lock:
            return self._items.get(key)

    def named(self, type_token: str, reference: str) -> Item | None:
        """The item of a type that a reference means, if it exists."""
        return next((item for item in self.of_type(type_token) if item.is_named(reference)), None)

    def named_in(self, message: str) -> list[Item]:
        """What a message says is in the way."""
        texts = "{0.type} {0.id!r} already exists", "is already being used by {0.id}"
        return [item for item in self.items if any(text.format(item) in message for text in texts)]

    def of_type(self, type_token: str, cluster: str | None = None) -> Iterator[Item]:
        """All items of a type, in one cluster if that is given."""
        for item in self.items:
            if item.type == type_token and cluster in (None, item.cluster):
                yield item

    def remove(self, item: Item) -> None:
        """Removes an item; a cluster takes its objects and its nodes along, a secret its versions."""
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
                gone += [each.key for each in versions if item.is_named(str(each.inputs["secret"]))]
            for key in gone:
                del self._items[key]

    def pools_of(self, cluster: Item) -> list[Item]:
        """The node pools of a cluster."""
        return [pool for pool in self.of_type(NODE_POOL) if cluster.is_named(str(pool.inputs["cluster"]))]

    def webhook_answers(self) -> bool:
        """Whether Kueue's webhook answers this call."""
        with self._lock:
            silent = self.silent_webhook > 0
            self.silent_webhook -= silent
            return not silent

    def is_too_early(self, what: str) -> bool:
        """Whether this is the first call of something that was made a moment ago: it is not there yet."""
        with self._lock:
            early = self.is_slow and what not in self._called
            self._called.add(what)
            return early

    def run_job(self) -> None:
        """A training job runs: from now on there are checkpoints in every bucket."""
        self.written_buckets |= {bucket.id for bucket in self.of_type(BUCKET)}
