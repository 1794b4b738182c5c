"""A fake provider: the operations of a provider on a `FakeCloud`.

Its methods say where it behaves like the Terraform bridge or pulumi-kubernetes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar

from cloud import records
from cloud.inputs import UNKNOWN
from cloud.record import Problem, Record, without_indices
from cloud.services.kubernetes import CUSTOM
from engine.plan import changed_paths
from rehearsal import rules
from rehearsal.fakes.cloud import FakeCloud, Item, Rejected, Unready
from rehearsal.fakes.faults import Faults, Operation

Inputs = dict[str, Any]
Outputs = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The resource of an operation.

    Args:
        type: Type token.
        name: Logical name.
        config: Configuration of its provider.
        urn: URN, for messages.
    """

    type: str
    name: str
    config: Mapping[str, Any]
    urn: str = ""


@dataclass(frozen=True, kw_only=True)
class Diff:
    """The differences between old and new inputs.

    Args:
        updates: Paths that change in place.
        replaces: Paths whose change needs a new resource.
        delete_before_replace: Whether the old resource must be deleted before the new one is created.
    """

    updates: Sequence[str]
    replaces: Sequence[str]
    delete_before_replace: bool = False


class FakeProvider(ABC):
    """The part of a fake provider that does not depend on the package.

    Attributes:
        package: Name of the package.
        version: Version of the package's SDK. Without it the engine warns.
        cloud: The fake cloud.
        faults: Operations that fail on purpose.
    """

    package: ClassVar[str]

    def __init__(self, cloud: FakeCloud, faults: Faults) -> None:
        self.version = metadata.version(f"pulumi-{self.package}")
        self.cloud = cloud
        self.faults = faults

    @abstractmethod
    def name(self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str) -> Inputs:
        """The inputs that an automatic name adds. `check` describes the arguments."""

    @abstractmethod
    def is_fixed(self, record: Record, olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
        """Whether a replacement deletes first: the name is fixed, or the provider always does."""

    def cluster(self, resource: Resource) -> str | None:
        """The cluster of a Kubernetes object, None for other resources."""
        return None

    def is_same(
        self, resource: Resource, path: str, olds: Mapping[str, Any], news: Mapping[str, Any]
    ) -> bool:
        """Whether the provider treats inputs that differ at a path as equal."""
        return False

    @abstractmethod
    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Id and outputs of the resource when it exists."""

    @abstractmethod
    def failure_message(self, operation: Operation, resource: Resource, item_id: str, reason: str) -> str:
        """The provider's message about a resource that was written and still counts as failed."""

    @abstractmethod
    def admit(self, resource: Resource, inputs: Inputs, olds: Mapping[str, Any]) -> None:
        """Raises Rejected if what exists does not allow a creation or update.

        Args:
            resource: The resource.
            inputs: Its inputs.
            olds: Its inputs before an update, empty for a creation.
        """

    def check(
        self, resource: Resource, news: Inputs, olds: Mapping[str, Any], seed: str
    ) -> tuple[Inputs, Iterable[Problem]]:
        """The inputs with an automatic name where the program sets none, and their problems.

        Args:
            resource: The resource.
            news: The program's inputs.
            olds: The inputs of the last check.
            seed: Random hex digits for a name, the same for the same plan.
        """
        inputs = {**news, **self.name(resource, news, olds, seed)}
        return inputs, rules.problems(resource.type, inputs)

    def diff(self, resource: Resource, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """The differences by the record. A fixed name must be free before the new resource takes it."""
        record = records.every().get(resource.type, CUSTOM)
        paths = [path for path in changed_paths(olds, news) if not self.is_same(resource, path, olds, news)]
        replacing = [path for path in paths if record.replaces(path, olds, news)]
        return Diff(
            updates=[path for path in paths if path not in replacing],
            replaces=replacing,
            delete_before_replace=bool(replacing) and self.is_fixed(record, olds, news),
        )

    def apply(self, resource: Resource, inputs: Inputs, *, new: bool) -> tuple[str, Outputs, str]:
        """Writes the resource and waits for it. By default it writes nothing and computes the outputs.

        Args:
            resource: The resource.
            inputs: Its inputs.
            new: Whether it is created, else updated.

        Returns:
            Its id, its outputs, and why it is not ready, empty if it is.

        Raises:
            Rejected: If it cannot be written.
        """
        return *self.outputs(resource, inputs), ""

    def preview(self, resource: Resource, inputs: Inputs, olds: Outputs) -> Outputs:
        """The outputs that a preview knows: the inputs, and the outputs before the change."""
        return {**olds, **inputs}

    def configure(self, name: str) -> None:
        """Accepts a provider resource by its logical name, or raises its fault."""
        with self.faults.trigger(name, "creation"):
            pass

    def diff_config(self, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """The differences of a provider resource. It is replaced if it is for another cluster."""
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key))
        identity = "clusterIdentifier" if "clusterIdentifier" in {*olds, *news} else "kubeconfig"
        return Diff(
            updates=[key for key in changed if key != identity],
            replaces=[key for key in changed if key == identity],
        )

    def create(self, resource: Resource, inputs: Inputs, *, preview: bool) -> tuple[str, Outputs]:
        """Creates a resource. In a preview its outputs are unknown."""
        if preview:
            _, outputs = self.outputs(resource, inputs)
            return "", self.preview(resource, inputs, dict.fromkeys(outputs, UNKNOWN))
        self.admit(resource, inputs, {})
        record = records.every().get(resource.type, CUSTOM)
        with self.faults.trigger(resource.name, "creation") as failure:
            item_id, outputs, not_ready = self.apply(resource, inputs, new=True)
            item = Item(resource.type, item_id, resource.name, inputs, outputs, self.cluster(resource))
            self.cloud.add(item, adopts=record.adopts)
        if reason := not_ready or failure:
            raise Unready(self.failure_message("creation", resource, item_id, reason), item_id, outputs)
        return item_id, outputs

    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """The present inputs and outputs of a resource, None if it does not exist."""
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
        self.admit(resource, inputs, item.inputs)
        immutable = set(records.every().get(resource.type, CUSTOM).immutable.split())
        for path in {without_indices(path) for path in changed_paths(item.inputs, inputs)} & immutable:
            raise Rejected(f"{path}: Invalid value: field is immutable")
        with self.faults.trigger(resource.name, "update") as failure:
            _, item.outputs, not_ready = self.apply(resource, inputs, new=False)
            item.inputs = inputs
        if reason := not_ready or failure:
            raise Unready(self.failure_message("update", resource, item_id, reason), item_id, item.outputs)
        return item.outputs

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes a resource. A resource that does not exist counts as deleted."""
        item = self.find(resource, item_id)
        if item:
            self.cloud.remove(item)

    def find(self, resource: Resource, item_id: str) -> Item | None:
        """The item of a resource, None if it does not exist."""
        return self.cloud.find((self.cluster(resource) or "", resource.type, item_id))


def change_by_hand(item: Item) -> bool:
    """Changes an item as a person may in a console. Returns False if `up` could not undo that in place."""
    inputs, record = item.inputs, records.every().get(item.type, CUSTOM)
    if "metadata" in inputs:
        item.inputs = {**inputs, "metadata": {**inputs["metadata"], "labels": {"touched": "by-hand"}}}
        return True
    for key in inputs.keys() - {"__defaults"}:
        rest = {name: value for name, value in inputs.items() if name != key}
        if not (record.replaces(key, rest, inputs) or record.is_same(key, rest, inputs)):
            item.inputs = rest
            return True
    return False


def automatic_name(base: str, seed: str, digits: int) -> str:
    """A logical name with random digits. Like the providers, it does not shorten a long name."""
    return f"{base}-{seed[:digits]}"
