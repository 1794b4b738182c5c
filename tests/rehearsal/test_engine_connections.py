"""The program of a rehearsal reaches its engine, wherever earlier ones have listened."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import engine_pb2
from pulumi.runtime.settings import Settings

from rehearsal import inline_stack


def engine(port: int = 0) -> tuple[grpc.Server, int]:
    """A server that knows no method."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def answer(port: int) -> grpc.StatusCode:
    """The status that a program gets from the engine at a port."""
    # The SDK keeps settings in the context. This context ends with the call.
    stub: Any = copy_context().run(
        lambda: Settings(project="p", stack="s", engine=f"127.0.0.1:{port}").engine
    )
    with pytest.raises(grpc.RpcError) as error:
        stub.Log(engine_pb2.LogRequest(message="hello"))
    failed: Any = error.value
    return failed.code()


def test_an_engine_on_the_port_of_one_that_has_gone_is_reached() -> None:
    assert inline_stack.InlineStack  # importing it is what keeps the connections apart
    first, port = engine()
    assert answer(port) is grpc.StatusCode.UNIMPLEMENTED
    first.stop(0).wait()
    assert answer(port) is grpc.StatusCode.UNAVAILABLE
    second, _ = engine(port)
    assert answer(port) is grpc.StatusCode.UNIMPLEMENTED
    second.stop(0).wait()
