"""Asks a stand-in directly, without the engine."""

from typing import Any, NoReturn

from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2

from rehearsal.clock import Clock
from rehearsal.fake_cloud import FakeCloud
from rehearsal.fake_google import FakeGoogle
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import FakeProvider
from rehearsal.wire import from_struct, to_struct

PROJECT = "p"


class Refused(Exception):
    """The stand-in ended a call with an error."""


class _Call:
    """What gRPC hands to a servicer."""

    def __init__(self, connection: str) -> None:
        self._connection = connection

    def peer(self) -> str:
        return self._connection

    def abort(self, code: object, details: str) -> NoReturn:
        raise Refused(details)


class Platform:
    """A cloud with both stand-ins, asked in the engine's words."""

    def __init__(self) -> None:
        self.cloud = FakeCloud()
        self._google = FakeGoogle(self.cloud, Clock())
        self._kubernetes = FakeKubernetes(self.cloud, Clock())
        self.configure("gcp", {"project": PROJECT})

    def configure(self, package: str, config: dict[str, Any]) -> None:
        request = provider_pb2.ConfigureRequest(args=to_struct(config))
        self._stand_in(package).Configure(request, self._call())

    def check(
        self,
        type_token: str,
        name: str,
        news: dict[str, Any],
        olds: dict[str, Any] | None = None,
        seed: bytes = b"abcdefgh",
    ) -> tuple[dict[str, Any], list[str]]:
        """Checked inputs and the reasons against them."""
        request = provider_pb2.CheckRequest(
            urn=_urn(type_token, name), news=to_struct(news), olds=to_struct(olds or {}), randomSeed=seed
        )
        response = self._stand_in(type_token).Check(request, self._call())
        return from_struct(response.inputs), [failure.reason for failure in response.failures]

    def create(self, type_token: str, name: str, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Id and outputs."""
        request = provider_pb2.CreateRequest(urn=_urn(type_token, name), properties=to_struct(inputs))
        response = self._stand_in(type_token).Create(request, self._call())
        return response.id, from_struct(response.properties)

    def update(self, type_token: str, name: str, item_id: str, inputs: dict[str, Any]) -> None:
        request = provider_pb2.UpdateRequest(
            urn=_urn(type_token, name), id=item_id, news=to_struct(inputs), olds=Struct()
        )
        self._stand_in(type_token).Update(request, self._call())

    def plan(self, type_token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Outputs that a preview would show."""
        request = provider_pb2.CreateRequest(
            urn=_urn(type_token, name), properties=to_struct(inputs), preview=True
        )
        return from_struct(self._stand_in(type_token).Create(request, self._call()).properties)

    def diff(
        self, type_token: str, name: str, olds: dict[str, Any], news: dict[str, Any]
    ) -> provider_pb2.DiffResponse:
        request = provider_pb2.DiffRequest(
            urn=_urn(type_token, name), old_inputs=to_struct(olds), olds=to_struct(olds), news=to_struct(news)
        )
        return self._stand_in(type_token).Diff(request, self._call())

    def diff_config(self, olds: dict[str, Any], news: dict[str, Any]) -> provider_pb2.DiffResponse:
        """How a Kubernetes provider's own configuration changes."""
        request = provider_pb2.DiffRequest(
            old_inputs=to_struct(olds), olds=to_struct(olds), news=to_struct(news)
        )
        return self._kubernetes.DiffConfig(request, self._call())

    def read(self, type_token: str, name: str, item_id: str) -> str:
        """The id of what exists, empty when it does not."""
        request = provider_pb2.ReadRequest(urn=_urn(type_token, name), id=item_id, properties=Struct())
        return self._stand_in(type_token).Read(request, self._call()).id

    def delete(self, type_token: str, name: str, item_id: str) -> None:
        request = provider_pb2.DeleteRequest(urn=_urn(type_token, name), id=item_id)
        self._stand_in(type_token).Delete(request, self._call())

    def enable(self, *apis: str) -> None:
        """Enables APIs by the first part of their names."""
        for api in apis:
            service = f"{api}.googleapis.com"
            self.create("gcp:projects/service:Service", api, {"service": service, "project": PROJECT})

    def _stand_in(self, package: str) -> FakeProvider:
        return self._google if package.startswith("gcp") else self._kubernetes

    def _call(self) -> Any:
        return _Call("one connection")


def _urn(type_token: str, name: str) -> str:
    return f"urn:pulumi:test::llm-stacks::{type_token}::{name}"
