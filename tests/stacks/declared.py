"""What a stack's program declares, without the engine: a third of what a plan takes."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto.resource_pb2 import RegisterResourceRequest, RegisterResourceResponse
from pulumi.runtime.proto.source_pb2 import StackTrace

import stacks
from engine.configuration import configuration
from engine.project import project_name
from stacks.settings.reader import as_text


class _Monitor(MockMonitor):
    """Records the requests. As in a preview, nothing is known of a resource but its inputs."""

    def __init__(self) -> None:
        super().__init__(_NoCalls())
        self.requests: list[str] = []

    def RegisterResource(self, request: RegisterResourceRequest) -> RegisterResourceResponse:
        # They are sets, and those of properties repeat those of the resource.
        request.dependencies.sort()
        for field in ("propertyDependencies", "sourcePosition"):
            request.ClearField(field)
        self.requests.append(json.dumps(MessageToDict(request), sort_keys=True))
        urn = self.make_urn(request.parent, request.type, request.name)
        return RegisterResourceResponse(urn=urn, object=request.object)


class _NoCalls(pulumi.runtime.Mocks):
    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        raise AssertionError(args.name)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"{args.token} was called while the resources were declared")


def declared(stack: str, overrides: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The resources with their options, then the known outputs and the warnings, as sorted texts."""
    configured = configuration(stack, overrides)
    texts = {key: as_text(value) for key, value in {**configured.plain, **configured.secret}.items()}
    monitor, messages = _Monitor(), []
    asyncio.set_event_loop(asyncio.new_event_loop())
    # Another test's root resource belongs to another event loop.
    pulumi.runtime.settings.reset_options()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pulumi.runtime.resource._get_stack_trace", StackTrace)
        # Hooks wait for an engine's answers.
        patch.setattr(stacks, "wait_out_refusals", lambda: None)
        patch.setattr(pulumi.log, "warn", lambda message, *_, **__: messages.append(message))
        pulumi.runtime.set_mocks(_NoCalls(), project_name(), stack, preview=True, monitor=monitor)
        pulumi.runtime.set_all_config(texts, list(configured.secret))
        try:
            pulumi.runtime.test(lambda: _build(messages))()
        finally:
            pulumi.runtime.set_all_config({}, [])
    return sorted(monitor.requests), sorted(messages)


def _build(messages: list[str]) -> None:
    for name, output in stacks.build().items():
        pulumi.Output.concat(name, ": ", output).apply(messages.append)
