"""The SDK's Automation API, for many short operations one after the other in one process."""

import asyncio
import gc
import sys
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import patch

import pulumi.automation as automation
from grpc._cython import cygrpc
from pulumi.runtime import _grpc_settings
from pulumi.runtime.proto.source_pb2 import StackTrace

# A new engine may listen on the port of one that has gone. gRPC remembers that nobody answered there and does
# not ask again for some seconds; a connection with a pool of its own knows nothing of others.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.use_local_subchannel_pool", 1))
# The engine is on this machine, where the proxy of the environment does not lead.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.enable_http_proxy", 0))
# Of an engine that is killed; that it was is told.
warnings.filterwarnings("ignore", "Error in event stream")
# At a program's end the SDK awaits all outputs, some hundred: with this not as often as one of them comes.
_PATIENT: Final = {**vars(asyncio), "FIRST_COMPLETED": asyncio.FIRST_EXCEPTION}


class InlineStack(automation.Stack):
    """A stack that does not run the engine three more times after each operation for what the state says."""

    def outputs(self) -> automation.OutputMap:
        """Nothing; see `Rehearsal.state`."""
        return {}

    def info(self, show_secrets: bool = False) -> automation.UpdateSummary:
        """Nothing; see `engine.recorder`."""
        return cast(automation.UpdateSummary, object())


@contextmanager
def silence() -> Generator[None]:
    """Drops what the SDK leaves of a program when the engine ends an operation half-way.

    It closes the event loop with coroutines still waiting in it, and each complains when it is freed,
    whenever that is. Its answer to a hook that the engine asked for finds nobody, which gRPC prints.
    """
    shown, printed = sys.unraisablehook, traceback.print_exc

    def show(unraisable: "sys.UnraisableHookArgs") -> None:
        if getattr(unraisable.object, "__name__", "") != "run_pulumi_func":
            shown(unraisable)

    def print_exc(limit: int | None = None, file: Any = None, chain: bool = True) -> None:
        if not isinstance(sys.exc_info()[1], cygrpc.ExecuteBatchError):
            printed(limit, file, chain)

    sys.unraisablehook = show
    gc.freeze()  # half a second's work for the collection at the end, most of it the SDK's modules
    try:
        with (
            patch("traceback.print_exc", print_exc),
            # Half of the SDK's time: a message for --debug is a call of the engine, which drops it;
            patch("pulumi.log.debug", lambda *_, **__: None),
            # each resource has the whole stack of its making;
            patch("pulumi.runtime.resource._get_stack_trace", StackTrace),
            patch("pulumi.runtime.stack.asyncio", SimpleNamespace(**_PATIENT)),
        ):
            yield
    finally:
        gc.collect()
        gc.unfreeze()
        sys.unraisablehook = shown
