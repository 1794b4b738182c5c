"""`status` has a line about the served model, and compares it with its run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.google.clients import Clients
from operations.serving.status_line import ServedModelLine
from operations.state import Resource, State
from operations.status.cluster import from_kubeconfig
from operations.status.look import look
from operations.status.report import Health, Line
from tests.operations.forwarding_cluster import ForwardingCluster
from tests.operations.google_buckets import GoogleBuckets
from tests.operations.serving.conftest import PODS
from tests.operations.serving.model_server import MODELS, ModelServer
from tests.operations.serving.test_verify import KEPT, PROMPT, RUN, service

ROOT = "/run-of-the-job/model"


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    (tmp_path / "buckets" / RUN).mkdir(parents=True)
    (tmp_path / "buckets" / RUN / "check.json").write_text(json.dumps(KEPT))
    with GoogleBuckets(tmp_path / "buckets") as google:
        yield Clients("a-project", google.address)


@pytest.fixture
def good(model: ModelServer) -> ModelServer:
    """A server of a merged model that gives what the run has kept."""
    model.models, model.prompt = {"emoji": None}, PROMPT
    model.logprob = lambda _model, token: {9: -0.503, 10: -0.25}.get(token, -3.0)
    return model


def deployed() -> State:
    """A Deployment that serves the run."""
    bucket, _, folder = RUN.partition("/")
    attributes = {"bucketName": bucket, "mountOptions": f"implicit-dirs,only-dir={folder}"}
    arguments = [ROOT, "--served-model-name=emoji"]
    pod = {
        "containers": [{"command": ["vllm", "serve"], "args": arguments}],
        "volumes": [{"csi": {"volumeAttributes": attributes}}],
    }
    spec = {"selector": {"matchLabels": {"app": "serving"}}, "template": {"spec": pod}}
    kind = "kubernetes:apps/v1:Deployment"
    project = Resource(type="gcp:compute/network:Network", id="n", outputs={"project": "a-project"})
    return State(
        resources=(project, Resource(type=kind, id="llm/serving", inputs={"spec": spec}, outputs={}))
    )


def lines(clients: Clients, cluster: ForwardingCluster, folder: Path, more: Any = None) -> list[Line]:
    reached = from_kubeconfig(cluster.kubeconfig(folder))
    return list((more or ServedModelLine()).lines("mine", deployed(), clients, reached))


def test_a_model_that_is_the_same_is_as_trained(
    clients: Clients, cluster: ForwardingCluster, good: ModelServer, tmp_path: Path
) -> None:
    (line,) = lines(clients, cluster, tmp_path)
    assert (line.kind, line.name, line.state, line.health) == (
        "served model",
        "emoji",
        "as trained",
        Health.GOOD,
    )


def test_another_model_needs_a_person(
    clients: Clients, cluster: ForwardingCluster, good: ModelServer, tmp_path: Path
) -> None:
    good.logprob = lambda _model, _token: -9.0
    (line,) = lines(clients, cluster, tmp_path)
    assert (line.state, line.health) == ("not as trained", Health.BAD)
    assert line.why and "another model than" in line.why.text and line.why.remedy


def test_the_model_is_compared_once_while_one_watches(
    clients: Clients, cluster: ForwardingCluster, good: ModelServer, tmp_path: Path
) -> None:
    more = ServedModelLine()
    first = lines(clients, cluster, tmp_path, more)
    count = len(good.asked)
    assert lines(clients, cluster, tmp_path, more) == first
    assert len(good.asked) == count


def test_a_server_that_is_not_ready_is_compared_later(
    clients: Clients, cluster: ForwardingCluster, good: ModelServer, tmp_path: Path
) -> None:
    more = ServedModelLine()
    good.faults[MODELS] = (503, b"{}")
    (line,) = lines(clients, cluster, tmp_path, more)
    assert (line.state, line.health) == ("not compared", Health.WAITING)
    good.faults.clear()
    (line,) = lines(clients, cluster, tmp_path, more)
    assert line.state == "as trained"


def test_a_service_that_scales_to_zero_is_not_started(clients: Clients, good: ModelServer) -> None:
    state = service(good.address, ROOT, "--served-model-name", "emoji")
    (line,) = ServedModelLine().lines("mine", state, clients, None)
    assert (line.state, line.detail) == ("not compared", "python -m operations verify --stack mine")
    assert good.asked == []


def test_the_report_ends_with_the_line(
    clients: Clients, cluster: ForwardingCluster, good: ModelServer, tmp_path: Path
) -> None:
    reached = from_kubeconfig(cluster.kubeconfig(tmp_path))
    report = look("mine", deployed(), clients, reached, ServedModelLine().lines)
    assert report.lines[-1].state == "as trained"


def test_a_stack_that_serves_no_run_has_no_line(clients: Clients, cluster: ForwardingCluster) -> None:
    assert PODS in cluster._objects
    assert ServedModelLine().lines("mine", State(), clients, None) == []
