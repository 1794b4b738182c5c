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

# A new engine may listen on the port of an engine that has ended. gRPC remembers that nobody answered there,
# and does not ask again for some seconds. A connection with its own pool does not share that memory.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.use_local_subchannel_pool", 1))
# The engine is on this machine. A proxy from the environment would not reach it.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.enable_http_proxy", 0))
# The SDK warns about an engine that is killed. `Engine.run` reports that itself.
warnings.filterwarnings("ignore", "Error in event stream")
# At the end of a program the SDK awaits some hundred outputs, and looks at all of them whenever one comes.
# With this replacement for its module `asyncio` it looks once, when all are there.
_AWAITING_ALL: Final = {**vars(asyncio), "FIRST_COMPLETED": asyncio.FIRST_EXCEPTION}


class InlineStack(automation.Stack):
    """A stack that does not run the engine three more times after each operation for what the state says."""

    def outputs(self) -> automation.OutputMap:
        """No outputs: `Rehearsal.state` has them."""
        return {}

    def info(self, show_secrets: bool = False) -> automation.UpdateSummary:
        """An empty object: `engine.recorder` records what an operation did."""
        return cast(automation.UpdateSummary, object())


@contextmanager
def silence() -> Generator[None]:
    """Silences the SDK after the engine has ended an operation half-way, and makes it faster.

    The SDK closes the event loop with coroutines that still wait, and Python warns when they are freed. When
    the answer to a hook finds no engine, the gRPC library prints an error.
    """
    shown, printed = sys.unraisablehook, traceback.print_exc

    def show(unraisable: "sys.UnraisableHookArgs") -> None:
        if getattr(unraisable.object, "__name__", "") != "run_pulumi_func":
            shown(unraisable)

    def print_exc(limit: int | None = None, file: Any = None, chain: bool = True) -> None:
        if not isinstance(sys.exc_info()[1], cygrpc.ExecuteBatchError):
            printed(limit, file, chain)

    sys.unraisablehook = show
    gc.freeze()  # otherwise the collection at the end takes half a second, mostly for the SDK's modules
    try:
        with (
            patch("traceback.print_exc", print_exc),
            # Half of the SDK's time: a message for --debug is a call of the engine, which drops it.
            patch("pulumi.log.debug", lambda *_, **__: None),
            # The SDK sends the Python stack with every resource.
            patch("pulumi.runtime.resource._get_stack_trace", StackTrace),
            patch("pulumi.runtime.stack.asyncio", SimpleNamespace(**_AWAITING_ALL)),
        ):
            yield
    finally:
        gc.collect()
        gc.unfreeze()
        sys.unraisablehook = shown
