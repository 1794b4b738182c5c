"""Asks a fake provider directly, without the engine."""

from typing import Any

from rehearsal.fakes.cloud import FakeCloud
from rehearsal.fakes.faults import Faults
from rehearsal.fakes.google import FakeGoogle
from rehearsal.fakes.kubernetes import FakeKubernetes
from rehearsal.fakes.provider import Diff, FakeProvider, Resource
from tests.rehearsal.right import CLUSTER, NAMESPACE, SERVICE

PROJECT = "p"
AUTOPILOT = {"name": "c", "location": "us-central1", "enableAutopilot": True, "deletionProtection": False}
STANDARD = {**AUTOPILOT, "enableAutopilot": False, "initialNodeCount": 1, "removeDefaultNodePool": True}


class Platform:
    """A fake cloud with both providers, and some APIs on.

    Args:
        apis: First parts of their names.
    """

    def __init__(self, *apis: str) -> None:
        self.cloud = FakeCloud()
        faults = Faults()
        self.kubernetes = FakeKubernetes(self.cloud, faults)
        self._google = FakeGoogle(self.cloud, faults)
        self._configs: dict[str, dict[str, Any]] = {"gcp": {"project": PROJECT}}
        self.enable(*apis)

    def configure(self, **config: str) -> None:
        """Configures the Kubernetes provider."""
        self._configs["kubernetes"] = config

    def check(
        self,
        type_token: str,
        name: str,
        news: dict[str, Any],
        olds: dict[str, Any] | None = None,
        seed: bytes = b"abcdefgh",
    ) -> tuple[dict[str, Any], list[str]]:
        """Checked inputs and the reasons against them."""
        provider, resource = self._asked(type_token, name)
        inputs, problems = provider.check(resource, news, olds or {}, seed.hex())
        return inputs, [reason for _, reason in problems]

    def create(self, type_token: str, name: str, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Id and outputs."""
        provider, resource = self._asked(type_token, name)
        return provider.create(resource, inputs, preview=False)

    def update(self, type_token: str, name: str, item_id: str, inputs: dict[str, Any]) -> None:
        provider, resource = self._asked(type_token, name)
        provider.update(resource, item_id, {}, inputs, preview=False)

    def plan(self, type_token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Outputs that a preview would show."""
        provider, resource = self._asked(type_token, name)
        return provider.create(resource, inputs, preview=True)[1]

    def diff(self, type_token: str, name: str, olds: dict[str, Any], news: dict[str, Any]) -> Diff:
        provider, resource = self._asked(type_token, name)
        return provider.diff(resource, olds, news)

    def exists(self, type_token: str, name: str, item_id: str) -> bool:
        provider, resource = self._asked(type_token, name)
        return provider.read(resource, item_id) is not None

    def delete(self, type_token: str, name: str, item_id: str) -> None:
        provider, resource = self._asked(type_token, name)
        provider.delete(resource, item_id)

    def enable(self, *apis: str) -> None:
        """Enables APIs by the first part of their names."""
        for api in apis:
            service = f"{api}.googleapis.com"
            self.create(SERVICE, api, {"service": service, "project": PROJECT})

    def make_cluster(self, inputs: dict[str, Any], *namespaces: str) -> None:
        """A cluster with namespaces in it, and a Kubernetes provider for it."""
        _, cluster = self.create(CLUSTER, "c", inputs)
        address = f"server: https://{cluster['endpoint']}"
        self.configure(kubeconfig=address, clusterIdentifier=cluster["selfLink"])
        for name in namespaces:
            self.make_namespace(name)

    def make_namespace(self, name: str, **labels: str) -> None:
        metadata = {"name": name, "labels": labels}
        self.create(NAMESPACE, name, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def _asked(self, type_token: str, name: str) -> tuple[FakeProvider, Resource]:
        package = type_token.partition(":")[0]
        resource = Resource(type=type_token, name=name, config=self._configs.get(package, {}))
        return (self._google if package == "gcp" else self.kubernetes), resource
