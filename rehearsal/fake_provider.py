"""A fake provider: the operations of a provider over a `FakeCloud`.

It behaves as the Terraform bridge and pulumi-kubernetes do where a method says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar

from cloud import records
from cloud.inputs import UNKNOWN
from cloud.kubernetes import CUSTOM
from cloud.record import Problem, Record
from engine.plan import changed_paths
from rehearsal import rules
from rehearsal.fake_cloud import FakeCloud, Item, Rejected, Unready
from rehearsal.faults import Faults, Operation

Inputs = dict[str, Any]
Outputs = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The resource that an operation is about.

    Args:
        type: Type token.
        name: Logical name.
        config: Configuration of its provider.
        urn: What the engine calls it, for messages.
    """

    type: str
    name: str
    config: Mapping[str, Any]
    urn: str = ""


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What differs between old and new inputs.

    Args:
        updates: Paths that change in place.
        replaces: Paths whose change makes a new resource.
        delete_before_replace: Whether the old resource must go before the new one can be made.
    """

    updates: Sequence[str]
    replaces: Sequence[str]
    delete_before_replace: bool = False


class FakeProvider(ABC):
    """The part of a fake provider that does not depend on the package.

    Attributes:
        package: Name of the package.
        version: Version of the package's SDK; without it the engine warns.
        cloud: What exists.
        faults: Operations that are to fail.
    """

    package: ClassVar[str]

    def __init__(self, cloud: FakeCloud, faults: Faults) -> None:
        self.version = metadata.version(f"pulumi-{self.package}")
        self.cloud = cloud
        self.faults = faults

    @abstractmethod
    def name(self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str) -> Inputs:
        """Inputs with a name where the program gives none; see `check`."""

    @abstractmethod
    def is_fixed(self, record: Record, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
        """Whether the old resource goes first: the new one has a stated name, or the provider wants it so."""

    def cluster(self, resource: Resource) -> str | None:
        """The cluster that the resource lives in, None outside Kubernetes."""
        return None

    def is_same(
        self, resource: Resource, path: str, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> bool:
        """Whether inputs that differ at a path mean the same to the provider."""
        return False

    @abstractmethod
    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Id and outputs of the resource once it exists."""

    @abstractmethod
    def half_done(self, operation: Operation, resource: Resource, item_id: str, reason: str) -> str:
        """What the provider says of something that is made or changed and failed all the same."""

    @abstractmethod
    def admit(self, resource: Resource, inputs: Inputs) -> None:
        """Checks a creation or update against what exists; raises Rejected."""

    def check(
        self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str
    ) -> tuple[Inputs, Iterable[Problem]]:
        """The inputs with a name where the program gives none, and what is wrong with them.

        Args:
            resource: The resource.
            news: What the program states.
            olds: What was checked the last time.
            seed: Random hex digits for a name, the same for the same plan.
        """
        inputs = {**news, **self.name(resource, news, olds, seed)}
        return inputs, rules.problems(resource.type, inputs)

    def diff(self, resource: Resource, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """Differences as the record says; a fixed name must be free before the new resource takes it."""
        record = records.every().get(resource.type, CUSTOM)
        paths = [path for path in changed_paths(olds, news) if not self.is_same(resource, path, olds, news)]
        replacing = [path for path in paths if record.replaces(path, olds, news)]
        return Diff(
            updates=[path for path in paths if path not in replacing],
            replaces=replacing,
            delete_before_replace=bool(replacing) and self.is_fixed(record, olds, news),
        )

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Writes the resource, waits for it, and says why it is not ready.

        Where nothing is written its outputs are all there is to it.

        Args:
            new: Whether it is created, else updated.

        Raises:
            Rejected: When it cannot be written.
        """
        return *self.outputs(resource, inputs), ""

    def preview(self, resource: Resource, inputs: Inputs, olds: Outputs) -> Outputs:
        """What will be known of a resource: its inputs, and what was computed before; raises Rejected."""
        return {**olds, **inputs}

    def configure(self, name: str) -> None:
        """Accepts a provider resource by its logical name; raises Struck when that is to fail."""
        with self.faults.strike(name, "creation"):
            pass

    def diff_config(self, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """A change updates a provider resource, and replaces it when it means another cluster."""
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key))
        identity = "clusterIdentifier" if "clusterIdentifier" in {*olds, *news} else "kubeconfig"
        return Diff(
            updates=[key for key in changed if key != identity],
            replaces=[key for key in changed if key == identity],
        )

    def create(self, resource: Resource, inputs: Inputs, *, preview: bool) -> tuple[str, Outputs]:
        """Creates a resource; in a preview its outputs are unknown."""
        if preview:
            _, outputs = self.outputs(resource, inputs)
            return "", self.preview(resource, inputs, dict.fromkeys(outputs, UNKNOWN))
        self.admit(resource, inputs)
        record = records.every().get(resource.type, CUSTOM)
        with self.faults.strike(resource.name, "creation") as failure:
            item_id, outputs, lacks = self.apply(resource, inputs, new=True)
            item = Item(resource.type, item_id, resource.name, inputs, outputs, self.cluster(resource))
            self.cloud.add(item, adopts=record.adopts)
        if reason := lacks or failure:
            raise Unready(self.half_done("creation", resource, item_id, reason), item_id, outputs)
        return item_id, outputs

    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """Inputs and outputs of what exists now, None when it is gone."""
        item = self.find(resource, item_id)
        return (item.inputs, item.outputs) if item else None

    def update(
        self, resource: Resource, item_id: str, olds: Outputs, inputs: Inputs, *, preview: bool
    ) -> Outputs:
        """Updates a resource in place."""
        if preview:
            return self.preview(resource, inputs, olds)
        item = self.find(resource, item_id)
        if item is None:
            raise Rejected(f"{resource.type} {item_id!r} not found")
        self.admit(resource, inputs)
        with self.faults.strike(resource.name, "update") as failure:
            _, item.outputs, lacks = self.apply(resource, inputs, new=False)
            item.inputs = inputs
        if reason := lacks or failure:
            raise Unready(self.half_done("update", resource, item_id, reason), item_id, item.outputs)
        return item.outputs

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes a resource; one that is gone already counts as deleted."""
        item = self.find(resource, item_id)
        if item:
            self.cloud.remove(item)

    def find(self, resource: Resource, item_id: str) -> Item | None:
        """What exists of a resource, if it does."""
        return self.cloud.find((self.cluster(resource) or "", resource.type, item_id))


def spoil(item: Item) -> bool:
    """Changes something as a person may in a console; False if that could not be mended in place."""
    inputs, record = item.inputs, records.every().get(item.type, CUSTOM)
    if "metadata" in inputs:
        item.inputs = {**inputs, "metadata": {**inputs["metadata"], "labels": {"touched": "by-hand"}}}
        return True
    for key in inputs.keys() - {"__defaults"}:
        item.inputs = {each: value for each, value in inputs.items() if each != key}
        if not (record.replaces(key, item.inputs, inputs) or record.is_same(key, item.inputs, inputs)):
            return True
    item.inputs = inputs
    return False


def automatic_name(base: str, seed: str, digits: int) -> str:
    """A logical name with random digits. Like the providers it cuts nothing: what is too long is refused."""
    return f"{base}-{seed[:digits]}"
