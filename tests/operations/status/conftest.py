"""A cluster and a project that are looked at."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cloud.discovery import Call
from operations.google.clients import Clients
from operations.state import Resource
from operations.status import look as status
from operations.status.cluster import from_kubeconfig
from operations.status.report import Report
from tests.operations.google_server import Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.past_stack import PastStack


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesServer]:
    # A test does not wait between two tries.
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with KubernetesServer() as server:
        yield server


@pytest.fixture
def google(google: GoogleServer) -> GoogleServer:
    """GKE knows the cluster, and that all is well."""
    pools = [{"name": "l4-pool", "status": "RUNNING"}]
    answer = {"name": "c", "status": "RUNNING", "nodePools": pools}
    google.plant("container.v1", "container.projects.locations.clusters.get", answer)
    return google


@pytest.fixture
def look(
    clients: Clients, cluster: KubernetesServer, tmp_path: Path, neutral: PastStack
) -> Callable[[], Report]:
    """The status of a stack that has a Ray cluster too, and a job on it."""
    ray = [
        Resource(type=f"kubernetes:ray.io/v1:{kind}", id=f"ray/{kind.lower()}", outputs={})
        for kind in ("RayCluster", "RayJob")
    ]
    state = replace(neutral.alive, resources=(*neutral.alive.resources, *ray))
    return partial(status.look, "neutral", state, clients, from_kubeconfig(cluster.kubeconfig(tmp_path)))


@pytest.fixture
def metrics(google: GoogleServer) -> Callable[..., None]:
    def plant(content: bytes, complete: bytes | None = None, **records: bytes) -> None:
        files = {"COMPLETE.json": complete, "metrics.jsonl": content}
        files |= {f"{name}.json": text for name, text in records.items()}

        def answer(call: Call, _body: Any) -> Any:
            if call.query.get("alt") == "media":
                text = files.get(call.address["object"].rpartition("/")[2])
                raise Fault(code=404) if text is None else Fault(body=text)
            return {"name": call.address["object"], "updated": "2026-11-21T09:58:00.000Z"}

        google.plant("storage.v1", "storage.objects.get", answer)

    return plant
