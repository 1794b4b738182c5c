"""Runs the SDK's provider of dynamic resources in this process.

The engine would start a process for every operation.
"""

import importlib.util
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import grpc
from google.protobuf.empty_pb2 import Empty

from rehearsal.fakes.faults import Faults
from rehearsal.fakes.provider_server import rejecting


class _Loaded(Exception):
    """Stops the module's import at the point where it would start to serve."""


@cache
def _sdk() -> ModuleType:
    """The provider's module. Its import would serve for ever and is stopped before that."""
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
    """The provider's servicer, with faults in its creations and deletions.

    Args:
        faults: Operations that fail on purpose.
        configuration: Values that are added to the stack's configuration: the addresses of its APIs.
    """
    sdk = _sdk()

    class DynamicProvider(sdk.DynamicResourceProviderServicer):
        def Attach(self, request: Any, context: grpc.ServicerContext) -> Empty:
            return Empty()

        def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
            configured = super().Configure(request, context)
            self._config.update(configuration)
            # The SDK keeps a provider with its first configuration for the life of the process.
            sdk._PROVIDER_CACHE.clear()
            return configured

        def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
            with rejecting(context), faults.trigger(request.urn.rpartition("::")[2], "creation"):
                return super().Create(request, context)

        def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
            with rejecting(context), faults.trigger(request.urn.rpartition("::")[2], "deletion"):
                return super().Delete(request, context)

    return DynamicProvider()
