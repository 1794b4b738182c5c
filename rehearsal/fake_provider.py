"""A fake provider: the operations of a provider over a `FakeCloud`.

It behaves as the Terraform bridge and pulumi-kubernetes do where a method says so.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from cloud.inputs import UNKNOWN
from rehearsal.fake_cloud import FakeCloud, Item, Rejected
from rehearsal.faults import Faults
from rehearsal.provider_server import Diff, Inputs, Outputs, Provider, Resource


class FakeProvider(Provider):
    """The part of a fake provider that does not depend on the package.

    Args:
        package: Name of the package, `gcp`.
        version: Version of its SDK.
        cloud: What exists.
        faults: Creations that are to fail.
    """

    def __init__(self, package: str, version: str, cloud: FakeCloud, faults: Faults) -> None:
        self.package = package
        self.version = version
        self.cloud = cloud
        self._faults = faults

    @abstractmethod
    def cluster(self, resource: Resource) -> str | None:
        """The cluster that the resource lives in, None outside Kubernetes."""

    @abstractmethod
    def outputs(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Id and outputs of the resource once it exists.

        Raises:
            Rejected: When it is created but does not become ready.
        """

    @abstractmethod
    def admit(self, resource: Resource, inputs: Inputs) -> None:
        """Checks a creation or update against what exists; raises Rejected."""

    def apply(self, resource: Resource, inputs: Inputs) -> tuple[str, Outputs]:
        """Writes the resource; where nothing is written its outputs are all there is to it.

        Raises:
            Rejected: When it cannot be written or does not become ready.
        """
        return self.outputs(resource, inputs)

    def dry_run(self, resource: Resource, inputs: Inputs) -> None:
        """Lets whoever would write the resource judge it in a preview; raises Rejected."""

    def configure(self, urn: str, config: Mapping[str, Any]) -> None:
        """Any configuration will do."""
        if urn:
            self._fail_if_asked(urn.split("::")[-1])

    def diff_config(self, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """A change updates a provider, and replaces it when it means another cluster."""
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key))
        identity = "clusterIdentifier" if "clusterIdentifier" in {*olds, *news} else "kubeconfig"
        return Diff(
            updates=[key for key in changed if key != identity],
            replaces=[key for key in changed if key == identity],
        )

    def create(self, resource: Resource, inputs: Inputs, *, preview: bool) -> tuple[str, Outputs]:
        """In a preview the inputs are known, and which outputs there will be."""
        if preview:
            self.dry_run(resource, inputs)
            _, outputs = self.outputs(resource, inputs)
            return "", {**dict.fromkeys(outputs, UNKNOWN), **inputs}
        self.admit(resource, inputs)
        self._fail_if_asked(resource.name)
        item_id, outputs = self.apply(resource, inputs)
        self.cloud.add(Item(resource.type, item_id, resource.name, inputs, outputs, self.cluster(resource)))
        return item_id, outputs

    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """What was written last is what exists."""
        item = self.find(resource, item_id)
        return (item.inputs, item.outputs) if item else None

    def update(
        self, resource: Resource, item_id: str, olds: Outputs, inputs: Inputs, *, preview: bool
    ) -> Outputs:
        """In a preview what the platform computed once stays."""
        if preview:
            self.dry_run(resource, inputs)
            return {**olds, **inputs}
        item = self.find(resource, item_id)
        if item is None:
            raise Rejected(f"{resource.type} {item_id!r} not found")
        self.admit(resource, inputs)
        _, outputs = self.apply(resource, inputs)
        item.inputs, item.outputs = inputs, outputs
        return outputs

    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes what there is."""
        item = self.find(resource, item_id)
        if item:
            self.cloud.remove(item)

    def find(self, resource: Resource, item_id: str) -> Item | None:
        """What exists of a resource, if it does."""
        return self.cloud.find((self.cluster(resource) or "", resource.type, item_id))

    def _fail_if_asked(self, name: str) -> None:
        if reason := self._faults.take(name):
            raise Rejected(reason)
