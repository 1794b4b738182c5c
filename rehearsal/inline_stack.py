"""The SDK's Automation API, for many short operations one after the other in one process."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import pulumi.automation as automation
from pulumi.runtime import _grpc_settings

# A new engine may listen on the port of one that has gone. gRPC remembers that nobody answered there and does
# not ask again for some seconds; a connection with a pool of its own knows nothing of others.
_grpc_settings._GRPC_CHANNEL_OPTIONS.append(("grpc.use_local_subchannel_pool", 1))


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
    whenever that is.
    """
    shown = sys.unraisablehook

    def show(unraisable: "sys.UnraisableHookArgs") -> None:
        if getattr(unraisable.object, "__name__", "") != "run_pulumi_func":
            shown(unraisable)

    sys.unraisablehook = show
    try:
        yield
    finally:
        gc.collect()
        sys.unraisablehook = shown
