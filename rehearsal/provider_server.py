"""The provider protocol of the engine, over gRPC: its messages become calls of a `Provider`.

Source: the protocol's own comments (`pulumi.runtime.proto.provider_pb2_grpc`).
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from cloud.record import Problem
from rehearsal.fake_cloud import Rejected

# The engine asks for as many operations at once as the program allows; each has a thread of its own.
_THREADS: Final = 64
_MESSAGE_SIZE: Final = 400 * 1024 * 1024

Inputs = dict[str, Any]
Outputs = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The resource that a call is about.

    Args:
        urn: Its URN.
        type: Its type token.
        name: Its logical name.
        config: Configuration of its provider.
    """

    urn: str
    type: str
    name: str
    config: Mapping[str, Any]

    @classmethod
    def of(cls, urn: str, config: Mapping[str, Any]) -> "Resource":
        """Reads type and logical name off a URN."""
        _, _, types, name = urn.split("::", 3)
        return cls(urn=urn, type=types.split("$")[-1], name=name, config=config)


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How the engine wants a resource named that the program gave no physical name.

    Args:
        base: Logical name.
        proposed: The name that the stack's `pulumi:autonaming` asks for, None without such a setting.
        random: Hex digits from the engine's random seed; the same for the same plan.
        enabled: False where the stack switched automatic names off.
    """

    base: str
    proposed: str | None
    random: str
    enabled: bool

    def name(self, digits: int, longest: int) -> str:
        """Logical name and `digits` random hex digits, cut to `longest` characters."""
        if self.proposed:
            return self.proposed
        return f"{self.base[: longest - digits - 1]}-{self.random[:digits]}"


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What differs between old and new inputs.

    Args:
        updates: Paths that change in place.
        replaces: Paths whose change makes a new resource.
        delete_before_replace: Whether the old resource must go before the new one can be made.
    """

    updates: Sequence[str] = field(default_factory=list)
    replaces: Sequence[str] = field(default_factory=list)
    delete_before_replace: bool = False


class Provider(ABC):
    """A provider, by the operations of the protocol. Each but the configuration's may raise Rejected.

    Attributes:
        package: Name of the package, `gcp`.
        version: Version of its SDK; without it the engine warns.
    """

    package: str
    version: str

    @abstractmethod
    def configure(self, urn: str, config: Mapping[str, Any]) -> None:
        """Accepts the configuration of a provider; `urn` is empty for a default provider."""

    @abstractmethod
    def diff_config(self, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """What another configuration does to a provider."""

    @abstractmethod
    def check(
        self, resource: Resource, news: Inputs, olds: Mapping[str, Any], naming: Naming
    ) -> tuple[Inputs, Iterable[Problem]]:
        """The inputs with a name where the program left it out, and what is wrong with them."""

    @abstractmethod
    def diff(self, resource: Resource, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Diff:
        """What an update would change, and whether it replaces."""

    @abstractmethod
    def create(self, resource: Resource, inputs: Inputs, *, preview: bool) -> tuple[str, Outputs]:
        """Creates a resource; returns its id and outputs, in a preview those that will be known."""

    @abstractmethod
    def read(self, resource: Resource, item_id: str) -> tuple[Inputs, Outputs] | None:
        """Inputs and outputs of what exists now, None when it is gone."""

    @abstractmethod
    def update(
        self, resource: Resource, item_id: str, olds: Outputs, inputs: Inputs, *, preview: bool
    ) -> Outputs:
        """Updates a resource in place; returns its outputs, in a preview those that will be known."""

    @abstractmethod
    def delete(self, resource: Resource, item_id: str) -> None:
        """Deletes a resource; one that is gone already counts as deleted."""


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Calls a provider for the messages of the engine.

    Args:
        provider: Who is called.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._configs: dict[str, dict[str, Any]] = {}

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """The version of the SDK."""
        return plugin_pb2.PluginInfo(version=self._provider.version)

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> Empty:
        """The engine says where it listens; nothing is asked of it."""
        return Empty()

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """Secrets stay the engine's business: it keeps them marked and sends plain values."""
        return provider_pb2.ProviderHandshakeResponse(supports_autonaming_configuration=True)

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Accepts a provider's configuration as it is."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """What another configuration does to the provider."""
        olds, news = from_struct(request.old_inputs or request.olds), from_struct(request.news)
        return _diff_response(self._provider.diff_config(olds, news))

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Remembers the configuration for the connection it came in on: one per provider resource."""
        config = from_struct(request.args)
        with _rejecting(context):
            self._provider.configure(request.urn, config)
        self._configs[context.peer()] = config
        return provider_pb2.ConfigureResponse(supportsPreview=True, supports_autonaming_configuration=True)

    def Check(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Names the resource and lists what is wrong with its inputs."""
        resource = self._resource(request.urn, context)
        news, olds = from_struct(request.news), from_struct(request.olds)
        inputs, problems = self._provider.check(resource, news, olds, _naming(request, resource.name))
        failures = [
            provider_pb2.CheckFailure(property=path, reason=f"{path}: {reason}" if path else reason)
            for path, reason in problems
        ]
        return provider_pb2.CheckResponse(inputs=to_struct(inputs), failures=failures)

    def Diff(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """Update or replacement, by property."""
        resource = self._resource(request.urn, context)
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        return _diff_response(self._provider.diff(resource, olds, news))

    def Create(
        self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Creates, or in a preview says what will be known."""
        resource = self._resource(request.urn, context)
        with _rejecting(context):
            item_id, outputs = self._provider.create(
                resource, from_struct(request.properties), preview=request.preview
            )
        return provider_pb2.CreateResponse(id=item_id, properties=to_struct(outputs))

    def Read(
        self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """What exists now; no id means it is gone."""
        with _rejecting(context):
            found = self._provider.read(self._resource(request.urn, context), request.id)
        if found is None:
            return provider_pb2.ReadResponse()
        inputs, outputs = map(to_struct, found)
        return provider_pb2.ReadResponse(id=request.id, inputs=inputs, properties=outputs)

    def Update(
        self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Changes what exists, or in a preview says what will be known."""
        resource = self._resource(request.urn, context)
        olds, news = from_struct(request.olds), from_struct(request.news)
        with _rejecting(context):
            outputs = self._provider.update(resource, request.id, olds, news, preview=request.preview)
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        """Deletes; what is gone already counts as deleted."""
        with _rejecting(context):
            self._provider.delete(self._resource(request.urn, context), request.id)
        return Empty()

    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        """Nothing: the engine says this also when it merely closes one provider resource."""
        return Empty()

    def _resource(self, urn: str, context: grpc.ServicerContext) -> Resource:
        return Resource.of(urn, self._configs.get(context.peer(), {}))


class ProviderServer:
    """A provider that listens on a loopback port of its own.

    Args:
        provider: Who is called.

    Attributes:
        address: `PACKAGE:PORT`, as `PULUMI_DEBUG_PROVIDERS` lists it.
    """

    def __init__(self, provider: Provider) -> None:
        options = [("grpc.max_receive_message_length", _MESSAGE_SIZE)]
        self._server = grpc.server(ThreadPoolExecutor(max_workers=_THREADS), options=options)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(provider), self._server)
        self.address = f"{provider.package}:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        """Stops listening and waits until the last call is over."""
        stopped: threading.Event = self._server.stop(grace=0)
        stopped.wait()


def from_struct(struct: Struct) -> dict[str, Any]:
    """A property map as plain Python values; whole numbers become int."""
    return json.loads(json_format.MessageToJson(struct), parse_float=_number)


def to_struct(properties: dict[str, Any]) -> Struct:
    """Plain Python values as a property map."""
    return json_format.ParseDict(properties, Struct())


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _naming(request: provider_pb2.CheckRequest, name: str) -> Naming:
    mode = provider_pb2.CheckRequest.AutonamingOptions.Mode
    options = request.autonaming if request.HasField("autonaming") else None
    enabled = not (options and options.mode == mode.DISABLE)
    return Naming(
        base=name,
        proposed=options.proposed_name if options and enabled else None,
        random=request.randomSeed.hex(),
        enabled=enabled,
    )


def _diff_response(diff: Diff) -> provider_pb2.DiffResponse:
    changed = [*diff.updates, *diff.replaces]
    response = provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
        diffs=sorted({path.split(".")[0] for path in changed}),
        replaces=sorted({path.split(".")[0] for path in diff.replaces}),
        deleteBeforeReplace=diff.delete_before_replace,
        hasDetailedDiff=True,
    )
    for path in changed:
        kind = (
            provider_pb2.PropertyDiff.UPDATE_REPLACE
            if path in diff.replaces
            else provider_pb2.PropertyDiff.UPDATE
        )
        response.detailedDiff[path].kind = kind
        response.detailedDiff[path].inputDiff = True
    return response


@contextmanager
def _rejecting(context: grpc.ServicerContext) -> Generator[None]:
    """Ends the call with the platform's text when it rejects the operation."""
    try:
        yield
    except Rejected as rejected:
        context.abort(grpc.StatusCode.UNKNOWN, str(rejected))
