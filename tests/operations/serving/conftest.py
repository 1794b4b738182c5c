"""Stacks that serve, with stand-ins for their models and their clusters."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloud.services.cloudrun import SERVICE
from operations.state import State
from tests.operations.forwarding_cluster import ForwardingCluster, plant_server
from tests.operations.google_server import GoogleServer
from tests.operations.past_stack import PastStack
from tests.operations.serving.model_server import ModelServer

PODS = "/api/v1/namespaces/llm/pods"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def port(model: ModelServer) -> tuple[str, int]:
    """Host and port of the model's server."""
    host, _, number = model.address.removeprefix("http://").partition(":")
    return host, int(number)


@pytest.fixture
def cluster(port: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardingCluster]:
    """The cluster of neutral, with a server that is ready."""
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with ForwardingCluster({f"{PODS}/serving-1:8000": port}) as server:
        plant_server(server, PODS, "serving-1", app="serving")
        yield server


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Callable[[State], None]:
    """Sets what the engine knows of the stack."""

    def state(state: State) -> None:
        backend = SimpleNamespace(now=lambda: state)
        monkeypatch.setattr("operations.serving.ask.Backend", lambda _stack: backend)
        monkeypatch.setattr("operations.serving.bench.Backend", lambda _stack: backend)
        monkeypatch.setattr("operations.serving.verify.Backend", lambda _stack: backend)

    return state


@pytest.fixture
def on_gke(
    state: Callable[[State], None], neutral: PastStack, cluster: ForwardingCluster, tmp_path: Path
) -> tuple[str, ...]:
    """The arguments that choose neutral, whose cluster is the stand-in."""
    state(neutral.alive)
    return ("--stack", "neutral", "--kubeconfig", str(cluster.kubeconfig(tmp_path)))


@pytest.fixture
def on_cloud_run(
    state: Callable[[State], None], neutral_run: PastStack, model: ModelServer, google: GoogleServer
) -> tuple[str, ...]:
    """The arguments that choose neutral-run, whose service is the stand-in."""
    state(with_service_at(model.address, neutral_run.alive))
    return ("--stack", "neutral-run", "--endpoint", google.address)


@pytest.fixture
def on_internal_cloud_run(
    state: Callable[[State], None], neutral_run: PastStack, model: ModelServer, on_cloud_run: tuple[str, ...]
) -> tuple[str, ...]:
    """The same, and only the project's networks reach the service."""
    state(with_service_at(model.address, neutral_run.alive, ingress="INGRESS_TRAFFIC_INTERNAL_ONLY"))
    return on_cloud_run


def with_service_at(address: str, state: State, **inputs: str) -> State:
    """A state whose Cloud Run service has another address and other inputs."""

    def moved(resource: Any) -> Any:
        if resource.type != SERVICE.type:
            return resource
        outputs = {**resource.outputs, "uri": address}
        return replace(resource, outputs=outputs, inputs={**resource.inputs, **inputs})

    return replace(state, resources=tuple(map(moved, state.resources)))
