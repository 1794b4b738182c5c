"""A cluster and a project that are looked at."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.discovery import Call
from operations.clients import Clients
from operations.status.look import Look
from operations.status.report import Report
from tests.operations.conftest import Lived
from tests.operations.google_server import Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.project import PROJECT


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesServer]:
    # A test does not wait for an answer that never comes, nor between two tries.
    monkeypatch.setattr("operations.status.cluster._READ_S", 0.5)
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with KubernetesServer() as server:
        yield server


@pytest.fixture
def google(google: GoogleServer, l4_kueue: Lived) -> GoogleServer:
    """GKE knows the cluster, and that all is well."""
    name = l4_kueue.name(":Cluster")
    google.plant(
        "container.v1",
        "container.projects.locations.clusters.get",
        {"name": name, "status": "RUNNING", "nodePools": [{"name": "l4-pool", "status": "RUNNING"}]},
    )
    return google


@pytest.fixture
def look(
    l4_kueue: Lived, google: GoogleServer, cluster: KubernetesServer, tmp_path: Path
) -> Callable[[], Report]:
    clients = Clients(PROJECT, google.address, timeout_s=0.5)
    return Look("l4-kueue", l4_kueue.alive, clients, cluster.kubeconfig(tmp_path)).report


@pytest.fixture
def metrics(google: GoogleServer) -> Callable[..., None]:
    def plant(content: bytes, *, finished: bool = False) -> None:
        def answer(call: Call, _body: Any) -> Any:
            if call.query.get("alt") == "media":
                raise Fault(body=content)
            return {"name": call.address["object"], "updated": "2026-11-21T09:58:00.000Z"}

        google.plant("storage.v1", "storage.objects.get", answer)
        google.plant(
            "storage.v1",
            "storage.objects.list",
            {"items": [{"name": "run/COMPLETE.json"}]} if finished else {},
        )

    return plant
