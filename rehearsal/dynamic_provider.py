"""The SDK's provider of dynamic resources, here and not in a process that the engine starts each time."""

import importlib.util
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import grpc
from google.protobuf.empty_pb2 import Empty

from rehearsal.faults import Faults
from rehearsal.provider_server import rejecting


class _Loaded(Exception):
    """The module has come as far as to serve."""


@cache
def _sdk() -> ModuleType:
    """The module of the provider, which would serve for ever as soon as it is loaded."""
    spec = importlib.util.find_spec("pulumi.dynamic.__main__")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with patch("grpc.server", side_effect=_Loaded):
        try:
            spec.loader.exec_module(module)
        except _Loaded:
            return module
    raise AssertionError("pulumi.dynamic.__main__ serves no more")


def dynamic_provider(faults: Faults, configuration: Mapping[str, str]) -> Any:
    """A servicer of the provider, whose creations and deletions fail as told.

    Args:
        configuration: What it finds in the stack's configuration besides: where its APIs are.
    """
    sdk = _sdk()

    class DynamicProvider(sdk.DynamicResourceProviderServicer):
        def Attach(self, request: Any, context: grpc.ServicerContext) -> Empty:
            return Empty()

        def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
            configured = super().Configure(request, context)
            self._config.update(configuration)
            # It keeps what it has configured once for the life of its process.
            sdk._PROVIDER_CACHE.clear()
            return configured

        def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
            with rejecting(context), faults.strike(request.urn.rpartition("::")[2], "creation"):
                return super().Create(request, context)

        def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
            with rejecting(context), faults.strike(request.urn.rpartition("::")[2], "deletion"):
                return super().Delete(request, context)

    return DynamicProvider()
