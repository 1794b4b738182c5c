"""Asks a fake provider directly, without the engine."""

from pathlib import Path
from typing import Any

from rehearsal.fake_cloud import FakeCloud
from rehearsal.fake_google import FakeGoogle
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import Diff, FakeProvider, Resource
from rehearsal.faults import Faults

PROJECT = "p"


class Platform:
    """A fake cloud with both providers.

    Args:
        folder: For faults.
    """

    def __init__(self, folder: Path = Path("/nowhere")) -> None:
        self.cloud = FakeCloud()
        self.faults = Faults(folder)
        self.kubernetes = FakeKubernetes(self.cloud, self.faults)
        self._google = FakeGoogle(self.cloud, self.faults)
        self._configs: dict[str, dict[str, Any]] = {"gcp": {"project": PROJECT}}

    def configure(self, package: str, config: dict[str, Any]) -> None:
        self._configs[package] = config

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
            self.create("gcp:projects/service:Service", api, {"service": service, "project": PROJECT})

    def _asked(self, type_token: str, name: str) -> tuple[FakeProvider, Resource]:
        package = type_token.partition(":")[0]
        resource = Resource(type=type_token, name=name, config=self._configs.get(package, {}))
        return (self._google if package == "gcp" else self.kubernetes), resource
