"""Runs the SDK's provider of dynamic resources, and ends when the engine does.

The engine starts a plugin in a process group of its own; one whose engine was killed would stay for ever.
Run as a file, `python -P rehearsal/dynamic_plugin.py ENGINE_ADDRESS`, by the plugin of `Workspace`. A file
in the directory REHEARSAL_FAULTS lets the creation of the resource that it is named after fail, once.
"""

import os
import runpy
import threading
import time
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

_SECONDS_BETWEEN_LOOKS = 0.2


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(0)


def _add_failing(servicer: Any, server: grpc.Server) -> None:
    """Stands between the engine and the SDK's provider, which its module both makes and serves."""
    create = servicer.Create

    def create_or_fail(request: Any, context: grpc.ServicerContext) -> Any:
        name = request.urn.rpartition("::")[2]
        try:
            Path(os.environ["REHEARSAL_FAULTS"], name).unlink()
        except (KeyError, FileNotFoundError):
            return create(request, context)
        context.abort(grpc.StatusCode.UNKNOWN, f"the rehearsal lets the creation of {name} fail")

    servicer.Create = create_or_fail
    _add(servicer, server)


_add = provider_pb2_grpc.add_ResourceProviderServicer_to_server

if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    provider_pb2_grpc.add_ResourceProviderServicer_to_server = _add_failing  # ty: ignore[invalid-assignment]
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)
