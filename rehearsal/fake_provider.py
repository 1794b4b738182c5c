"""A stand-in for a provider plugin: the provider protocol over a `FakeCloud`.

Sources: the protocol's own comments (`pulumi.runtime.proto.provider_pb2_grpc`) and the behaviour of
the Terraform bridge and of pulumi-kubernetes where a method says so.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from cloud.inputs import UNKNOWN
from cloud.record import Problem
from rehearsal.clock import Clock
from rehearsal.fake_cloud import FakeCloud, Item, Rejected
from rehearsal.replacement import Changes
from rehearsal.wire import from_struct, to_struct

# The engine asks for as many operations at once as the program allows; each waits in its own thread.
_THREADS = 64
_MESSAGE_SIZE = 400 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the engine asks about one resource.

    Args:
        urn: Its URN.
        type: Its type token.
        name: Its logical name.
        config: Configuration of the provider instance that is asked.
    """

    urn: str
    type: str
    name: str
    config: Mapping[str, Any]

    @classmethod
    def of(cls, urn: str, config: Mapping[str, Any]) -> "Asked":
        """Reads type and logical name off a URN."""
        _, _, types, name = urn.split("::", 3)
        return cls(urn=urn, type=types.split("$")[-1], name=name, config=config)


class FakeProvider(provider_pb2_grpc.ResourceProviderServicer, ABC):
    """The part of a stand-in that does not depend on the package.

    Args:
        package: Name of the package, `gcp`.
        version: Version of its SDK; without it the engine warns.
        cloud: What exists.
        clock: How long operations take.
    """

    def __init__(self, package: str, version: str, cloud: FakeCloud, clock: Clock) -> None:
        self.package = package
        self._version = version
        self.cloud = cloud
        self._clock = clock
        self._configs: dict[str, dict[str, Any]] = {}

    # What a package decides.

    @abstractmethod
    def named(self, asked: Asked, news: dict[str, Any], olds: Mapping[str, Any], propose: "Naming") -> None:
        """Fills in the physical name the program left out."""

    @abstractmethod
    def problems(self, asked: Asked, inputs: Mapping[str, Any]) -> Iterable[Problem]:
        """What is wrong with the inputs, as far as they are known."""

    @abstractmethod
    def changes(self, asked: Asked, olds: Mapping[str, Any], news: Mapping[str, Any]) -> Changes:
        """What an update would change, and whether it replaces."""

    @abstractmethod
    def outputs(self, asked: Asked, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Id and properties of the resource once it exists.

        Raises:
            Rejected: When it is made but does not become ready.
        """

    def make(self, asked: Asked, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Brings a resource about, or changes it; by default there is no more to it than its outputs.

        Raises:
            Rejected: When it cannot be made or does not become ready.
        """
        return self.outputs(asked, inputs)

    def try_out(self, asked: Asked, inputs: dict[str, Any]) -> None:
        """Lets whoever would make the resource judge it in a preview; raises Rejected."""

    def unmake(self, asked: Asked, item: Item) -> None:
        """Takes a resource away; raises Rejected."""

    def current(self, asked: Asked, item: Item) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Inputs and properties of what exists now, None when it is gone."""
        return item.inputs, item.outputs

    @abstractmethod
    def cluster(self, asked: Asked) -> str | None:
        """The cluster that the resource lives in, None outside Kubernetes."""

    @abstractmethod
    def admit(self, asked: Asked, inputs: Mapping[str, Any]) -> None:
        """Checks a creation or update against what exists; raises Rejected."""

    @abstractmethod
    def release(self, asked: Asked, item: Item) -> bool:
        """Checks a deletion against what exists; False leaves the item behind. Raises Rejected."""

    # The protocol.

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """The version of the SDK."""
        return plugin_pb2.PluginInfo(version=self._version)

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> Empty:
        """The engine says where it listens; a stand-in needs nothing from it."""
        return Empty()

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """Secrets stay the engine's business: it keeps them marked and sends plain values."""
        return provider_pb2.ProviderHandshakeResponse(supports_autonaming_configuration=True)

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Takes a provider's configuration as it is."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """A changed configuration updates the provider, and replaces it when it means another cluster."""
        olds, news = from_struct(request.old_inputs or request.olds), from_struct(request.news)
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key))
        identity = "clusterIdentifier" if {*olds, *news} & {"clusterIdentifier"} else "kubeconfig"
        response = provider_pb2.DiffResponse(
            diffs=changed, replaces=[key for key in changed if key == identity]
        )
        response.changes = _some(bool(changed))
        return response

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Remembers the configuration for the connection it came in on: one per provider instance."""
        if request.urn and self.cloud.take_fault(request.urn.split("::")[-1]):
            _abort(context, Rejected(_fault_text(request.urn)))
        self._configs[context.peer()] = from_struct(request.args)
        return provider_pb2.ConfigureResponse(supportsPreview=True, supports_autonaming_configuration=True)

    def Check(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Names the resource and lists what is wrong with its inputs."""
        asked = self._asked(request.urn, context)
        news = from_struct(request.news)
        self.named(asked, news, from_struct(request.olds), Naming.of(request, asked.name))
        failures = [
            provider_pb2.CheckFailure(property=path, reason=f"{path}: {reason}" if path else reason)
            for path, reason in self.problems(asked, news)
        ]
        return provider_pb2.CheckResponse(inputs=to_struct(news), failures=failures)

    def Diff(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """Update or replacement, by property."""
        asked = self._asked(request.urn, context)
        changes = self.changes(asked, from_struct(request.old_inputs), from_struct(request.news))
        response = provider_pb2.DiffResponse(
            changes=_some(bool(changes.updates or changes.replaces)),
            diffs=sorted({path.split(".")[0] for path in (*changes.updates, *changes.replaces)}),
            replaces=sorted({path.split(".")[0] for path in changes.replaces}),
            deleteBeforeReplace=changes.delete_first,
            hasDetailedDiff=True,
        )
        for path in changes.updates:
            response.detailedDiff[path].kind = provider_pb2.PropertyDiff.UPDATE
            response.detailedDiff[path].inputDiff = True
        for path in changes.replaces:
            response.detailedDiff[path].kind = provider_pb2.PropertyDiff.UPDATE_REPLACE
            response.detailedDiff[path].inputDiff = True
        return response

    def Create(
        self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Creates, or in a preview says what will be known: the inputs, and that there is more to come."""
        asked = self._asked(request.urn, context)
        inputs = from_struct(request.properties)
        if request.preview:
            self._try_out(asked, inputs, context)
            return provider_pb2.CreateResponse(properties=to_struct(self._planned(asked, inputs)))
        try:
            self.admit(asked, inputs)
            self._clock.take(asked.type, "create", inputs)
            if self.cloud.take_fault(asked.name):
                raise Rejected(_fault_text(asked.urn))
            item_id, outputs = self.make(asked, inputs)
            self.cloud.add(Item(asked.type, item_id, asked.name, inputs, outputs, self.cluster(asked)))
        except Rejected as rejected:
            _abort(context, rejected)
        return provider_pb2.CreateResponse(id=item_id, properties=to_struct(outputs))

    def Read(
        self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """What exists now; no id means it is gone."""
        asked = self._asked(request.urn, context)
        item = self.cloud.find((self.cluster(asked) or "", asked.type, request.id))
        found = self.current(asked, item) if item else None
        if found is None:
            return provider_pb2.ReadResponse()
        inputs, outputs = found
        return provider_pb2.ReadResponse(
            id=request.id, inputs=to_struct(inputs), properties=to_struct(outputs)
        )

    def Update(
        self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Changes what exists; what the platform computed once stays."""
        asked = self._asked(request.urn, context)
        inputs = from_struct(request.news)
        if request.preview:
            self._try_out(asked, inputs, context)
            return provider_pb2.UpdateResponse(properties=to_struct({**from_struct(request.olds), **inputs}))
        try:
            item = self.cloud.find((self.cluster(asked) or "", asked.type, request.id))
            if item is None:
                raise Rejected(f"{asked.type} {request.id!r} not found")
            self.admit(asked, inputs)
            self._clock.take(asked.type, "update", inputs)
            _, outputs = self.make(asked, inputs)
            item.inputs, item.outputs = inputs, outputs
        except Rejected as rejected:
            _abort(context, rejected)
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> Empty:
        """Deletes; what is gone already counts as deleted."""
        asked = self._asked(request.urn, context)
        item = self.cloud.find((self.cluster(asked) or "", asked.type, request.id))
        if item is None:
            return Empty()
        try:
            if self.release(asked, item):
                self._clock.take(asked.type, "delete", item.inputs)
                self.unmake(asked, item)
                self.cloud.remove(item)
        except Rejected as rejected:
            _abort(context, rejected)
        return Empty()

    def Cancel(self, request: Empty, context: grpc.ServicerContext) -> Empty:
        """Nothing: the engine says this also when it merely closes one provider instance."""
        return Empty()

    def _asked(self, urn: str, context: grpc.ServicerContext) -> Asked:
        return Asked.of(urn, self._configs.get(context.peer(), {}))

    def _try_out(self, asked: Asked, inputs: dict[str, Any], context: grpc.ServicerContext) -> None:
        try:
            self.try_out(asked, inputs)
        except Rejected as rejected:
            _abort(context, rejected)

    def _planned(self, asked: Asked, inputs: dict[str, Any]) -> dict[str, Any]:
        _, outputs = self.outputs(asked, inputs)
        return {**{key: UNKNOWN for key in outputs}, **inputs}


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How the engine wants a resource named that the program gave no physical name.

    Args:
        base: Logical name.
        proposed: The name the stack's `pulumi:autonaming` asks for, None without such a setting.
        random: Hex digits from the engine's random seed; the same for the same plan.
        enabled: False where the stack switched automatic names off.
    """

    base: str
    proposed: str | None
    random: str
    enabled: bool

    @classmethod
    def of(cls, request: provider_pb2.CheckRequest, name: str) -> "Naming":
        """Reads the wishes off a request."""
        mode = provider_pb2.CheckRequest.AutonamingOptions.Mode
        options = request.autonaming if request.HasField("autonaming") else None
        return cls(
            base=name,
            proposed=options.proposed_name if options and options.mode != mode.DISABLE else None,
            random=request.randomSeed.hex(),
            enabled=not (options and options.mode == mode.DISABLE),
        )

    def name(self, digits: int, longest: int) -> str:
        """Logical name and `digits` random hex digits, cut to `longest` characters."""
        if self.proposed:
            return self.proposed
        return f"{self.base[: longest - digits - 1]}-{self.random[:digits]}"


class Server:
    """A stand-in listening on a loopback port of its own."""

    def __init__(self, stand_in: FakeProvider) -> None:
        options = [("grpc.max_receive_message_length", _MESSAGE_SIZE)]
        self._server = grpc.server(ThreadPoolExecutor(max_workers=_THREADS), options=options)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(stand_in, self._server)
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"{stand_in.package}:{self._port}"
        self._server.start()

    def stop(self) -> None:
        """Stops listening and waits until the last call is over."""
        stopped: threading.Event = self._server.stop(grace=0)
        stopped.wait()


def _some(changed: bool) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    return provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE


def _fault_text(urn: str) -> str:
    return f"the rehearsal lets the creation of {urn.split('::')[-1]} fail"


def _abort(context: grpc.ServicerContext, rejected: Rejected) -> NoReturn:
    context.abort(grpc.StatusCode.UNKNOWN, str(rejected))
    raise AssertionError("abort returned")
