"""The engine's provider protocol over gRPC: the messages become calls of a fake provider.

Source: the protocol's own comments (`pulumi.runtime.proto.provider_pb2_grpc`).
"""

import json
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct
from grpc import ServicerContext as Context
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as protocol
from pulumi.runtime.proto.status_pb2 import Status

from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import Unready
from rehearsal.fakes.provider import Diff, FakeProvider, Resource

# The engine runs many operations at the same time. Every one has its own thread.
_THREADS: Final = 64
_OPTIONS: Final = (("grpc.max_receive_message_length", 400 * 1024 * 1024),)


@contextmanager
def serving(servicers: Mapping[str, provider_pb2_grpc.ResourceProviderServicer]) -> Generator[str]:
    """Serves providers on loopback, every one on its own port.

    Args:
        servicers: The providers by their packages' names.

    Yields:
        The value of `PULUMI_DEBUG_PROVIDERS`, such as `gcp:PORT,kubernetes:PORT`.
    """
    servers, addresses = [], []
    for package, servicer in servicers.items():
        server = grpc.server(ThreadPoolExecutor(_THREADS), options=_OPTIONS)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        addresses.append(f"{package}:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        servers.append(server)
    try:
        yield ",".join(addresses)
    finally:
        for server in servers:
            server.stop(grace=0).wait()


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Calls a provider for the messages of the engine."""

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        # By connection: the engine opens one for every provider resource.
        self._configs: dict[str, dict[str, Any]] = {}

    def GetPluginInfo(self, request: Empty, context: Context) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._provider.version)

    def Attach(self, request: plugin_pb2.PluginAttach, context: Context) -> Empty:
        return Empty()

    def Handshake(
        self, request: protocol.ProviderHandshakeRequest, context: Context
    ) -> protocol.ProviderHandshakeResponse:
        """Accepts the engine's defaults: it keeps track of secrets itself and sends plain values."""
        return protocol.ProviderHandshakeResponse()

    def CheckConfig(self, request: protocol.CheckRequest, context: Context) -> protocol.CheckResponse:
        return protocol.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: protocol.DiffRequest, context: Context) -> protocol.DiffResponse:
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        return _diff_response(self._provider.diff_config(olds, news))

    def Configure(self, request: protocol.ConfigureRequest, context: Context) -> protocol.ConfigureResponse:
        with rejecting(context):
            self._provider.configure(request.urn.rpartition("::")[2])
        self._configs[context.peer()] = from_struct(request.args)
        return protocol.ConfigureResponse(supportsPreview=True)

    def Check(self, request: protocol.CheckRequest, context: Context) -> protocol.CheckResponse:
        news, olds = from_struct(request.news), from_struct(request.olds)
        resource = self._resource(request, context)
        inputs, problems = self._provider.check(resource, news, olds, request.randomSeed.hex())
        failures = [
            protocol.CheckFailure(property=path, reason=f"{path}: {reason}" if path else reason)
            for path, reason in problems
        ]
        return protocol.CheckResponse(inputs=to_struct(inputs), failures=failures)

    def Diff(self, request: protocol.DiffRequest, context: Context) -> protocol.DiffResponse:
        olds, news = from_struct(request.old_inputs), from_struct(request.news)
        return _diff_response(self._provider.diff(self._resource(request, context), olds, news))

    def Create(self, request: protocol.CreateRequest, context: Context) -> protocol.CreateResponse:
        resource, inputs = self._resource(request, context), from_struct(request.properties)
        with rejecting(context):
            item_id, outputs = self._provider.create(resource, inputs, preview=request.preview)
        return protocol.CreateResponse(id=item_id, properties=to_struct(outputs))

    def Read(self, request: protocol.ReadRequest, context: Context) -> protocol.ReadResponse:
        with rejecting(context):
            present = self._provider.read(self._resource(request, context), request.id)
        if present is None:
            return protocol.ReadResponse()
        inputs, outputs = map(to_struct, present)
        return protocol.ReadResponse(id=request.id, inputs=inputs, properties=outputs)

    def Update(self, request: protocol.UpdateRequest, context: Context) -> protocol.UpdateResponse:
        resource, olds = self._resource(request, context), from_struct(request.olds)
        news = from_struct(request.news)
        with rejecting(context):
            outputs = self._provider.update(resource, request.id, olds, news, preview=request.preview)
        return protocol.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: protocol.DeleteRequest, context: Context) -> Empty:
        resource = self._resource(request, context)
        with rejecting(context), self._provider.faults.trigger(resource.name, "deletion"):
            self._provider.delete(resource, request.id)
        return Empty()

    def Cancel(self, request: Empty, context: Context) -> Empty:
        """Does nothing: the engine sends this also when it closes a provider resource."""
        return Empty()

    def _resource(self, request: Any, context: Context) -> Resource:
        _, _, types, name = request.urn.split("::", 3)
        config = self._configs.get(context.peer(), {})
        return Resource(type=types.split("$")[-1], name=name, config=config, urn=request.urn)


def from_struct(struct: Struct) -> dict[str, Any]:
    """A property map as plain Python values. Whole numbers become `int`."""
    return json.loads(json_format.MessageToJson(struct), parse_float=_number)


def to_struct(properties: Mapping[str, Any]) -> Struct:
    """Plain Python values as a property map."""
    return json_format.ParseDict(dict(properties), Struct())


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _diff_response(diff: Diff) -> protocol.DiffResponse:
    changed = [*diff.updates, *diff.replaces]
    response = protocol.DiffResponse(
        changes=protocol.DiffResponse.DIFF_SOME if changed else protocol.DiffResponse.DIFF_NONE,
        diffs=sorted({path.split(".")[0] for path in changed}),
        replaces=sorted({path.split(".")[0] for path in diff.replaces}),
        deleteBeforeReplace=diff.delete_before_replace,
        hasDetailedDiff=True,
    )
    kinds = protocol.PropertyDiff
    for path in changed:
        response.detailedDiff[path].kind = kinds.UPDATE_REPLACE if path in diff.replaces else kinds.UPDATE
        response.detailedDiff[path].inputDiff = True
    return response


@contextmanager
def rejecting(context: Context) -> Generator[None]:
    """Turns a RehearsalError into the error of the call, with the same message."""
    try:
        yield
    except Unready as error:
        text, properties = str(error), to_struct(error.outputs)
        status = Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text)
        status.details.add().Pack(
            protocol.ErrorResourceInitFailed(id=error.id, properties=properties, reasons=[text])
        )
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(grpc.StatusCode.UNKNOWN, text)
    except RehearsalError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
