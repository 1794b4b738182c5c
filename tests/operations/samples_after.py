"""The samples in docs/operations-after.md: what the commands print against the tests' servers.

python -m tests.operations.samples_after     runs them and rewrites the page
"""

import io
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from cloud.discovery import Call
from operations.clients import Clients
from operations.leftovers import command as leftovers
from operations.leftovers.footprint import footprint
from operations.leftovers.search import search
from operations.leftovers.thing import Place
from operations.state import Resource, State
from operations.status import command as status
from operations.status.look import Look
from tests.operations.google_server import Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.planned import planned
from tests.operations.project import PROJECT, REGION, ZONE, Project
from tests.operations.status import samples
from tests.operations.status.samples import condition, event, pod, unscheduled, workload

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations-after.md"
WIDTH: Final = 118
_BLOCK: Final = re.compile(r"(<!-- printed by: (?P<name>\w+) -->\n```text\n).*?(```\n)", re.DOTALL)

_IN_REGION: Final = f"projects/{PROJECT}/locations/{REGION}"
_NAMES: Final = {
    "gcp:compute/network:Network": f"projects/{PROJECT}/global/networks/l4-kueue-network-de13644",
    "gcp:container/cluster:Cluster": f"{_IN_REGION}/clusters/l4-kueue-cluster-d7c03c4",
    "gcp:storage/bucket:Bucket": "l4-kueue-bucket-130ed31",
    "gcp:serviceaccount/account:Account": (
        f"projects/{PROJECT}/serviceAccounts/l4-kueue-nodes-dea8851@{PROJECT}.iam.gserviceaccount.com"
    ),
    "kubernetes:batch/v1:Job": "llm/gemma-3-4b-sql-0c51b8e2",
}
_RUN: Final = "gemma-3-4b-sql-537484d7"


def _state() -> State:
    resources = [Resource(type=type_, name="", id=id_, outputs={}) for type_, id_ in _NAMES.items()]
    metrics = f"gcloud storage cat gs://l4-kueue-bucket-130ed31/{_RUN}/metrics.jsonl"
    return State(resources=tuple(resources), outputs={"readMetrics": metrics})


def _leftovers(server: GoogleServer) -> None:
    """A destroy of l4-kueue after which a claim's disk and what GKE was slow to delete are still there."""
    project = Project(server)
    network, account = "l4-kueue-network-de13644", _NAMES["gcp:serviceaccount/account:Account"]
    labels = {"goog-k8s-cluster-name": "l4-kueue-cluster-d7c03c4"}
    claim = "pvc-6f1d2c3b-4a5e-4f60-8b7a-9c8d7e6f5a4b"
    project.add("disks", claim, zone=ZONE, labels=labels, sizeGb="100")
    neg = "k8s1-0d4c6f8a-llm-serving-8000-5e7d2c1b"
    project.add("networkEndpointGroups", neg, zone=ZONE, network=network)
    project.add("networks", network)
    project.add("networks", "l4-kueue-network-0123abc")
    member = f"deleted:serviceAccount:{account.rpartition('/')[2]}?uid=104329385767"
    project.policy = {"roles/container.defaultNodeServiceAccount": [member]}
    plan = planned("l4-kueue")
    wanted = footprint(plan, State(), [_state()], [])
    place = Place(clients=_clients(server), project=PROJECT, regions=wanted.regions)
    findings = search(place, wanted, lambda _: None)
    leftovers.show(findings, wanted, State(), Console(width=WIDTH))


def _status(server: GoogleServer) -> None:
    """A fine-tune that serving has stopped, and a second server for which there is no machine."""
    cluster = {"name": "l4-kueue-cluster-d7c03c4", "status": "RUNNING"}
    server.plant("container.v1", "container.projects.locations.clusters.get", cluster)
    server.plant("storage.v1", "storage.objects.get", _metrics)
    admitted = [condition("QuotaReserved", True), condition("Admitted", True)]
    message = "couldn't assign flavors: insufficient unused quota for nvidia.com/gpu in flavor nvidia-l4"
    preempted = [condition("Evicted", True, "Preempted"), condition("QuotaReserved", False, "", message)]
    stockout = "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources."
    with KubernetesServer() as kubernetes, tempfile.TemporaryDirectory() as folder:
        kubernetes.plant(samples.NODES, samples.node("a"), samples.node("b"))
        spec = {"completions": 2, "parallelism": 2, "suspend": True}
        kubernetes.plant(
            samples.JOBS.format("llm"), {"metadata": {"name": "gemma-3-4b-sql-0c51b8e2"}, "spec": spec}
        )
        server_ready = {"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}
        kubernetes.plant(samples.DEPLOYMENTS.format("llm"), {"metadata": {"name": "serving"}, **server_ready})
        kubernetes.plant(
            samples.WORKLOADS.format("llm"),
            workload("pod-serving-9c8d7-1", *admitted, priority=20),
            workload("pod-serving-9c8d7-2", *admitted, priority=20),
            workload("job-gemma-3-4b-sql-0c51b8e2-4f60a", *preempted),
        )
        kubernetes.plant(
            samples.PODS.format("llm"), pod("serving-9c8d7-1", "Running"), unscheduled("serving-9c8d7-2")
        )
        kubernetes.plant(samples.EVENTS.format("llm"), event("serving-9c8d7-2", "FailedScaleUp", stockout))
        look = Look("l4-kueue", _state(), _clients(server), kubernetes.kubeconfig(Path(folder)))
        now = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
        Console(width=WIDTH).print(status.drawn(look.report(), now))


def _metrics(call: Call, _body: Any) -> Any:
    if call.query.get("alt") == "media":
        line = {"step": 60, "steps": 200, "loss": 0.8312, "tokens_per_second": 1043.0, "seconds_left": 5400.0}
        raise Fault(body=json.dumps(line).encode())
    return {"name": call.address["object"], "updated": "2026-11-21T09:41:00Z"}


def _clients(server: GoogleServer) -> Clients:
    return Clients(PROJECT, server.address)


SAMPLES: Final[dict[str, Callable[[GoogleServer], None]]] = {"leftovers": _leftovers, "status": _status}


def printed(name: str) -> str:
    """What a sample's command prints."""
    output = io.StringIO()
    with GoogleServer() as server, redirect_stdout(output):
        SAMPLES[name](server)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def shown(page: str) -> dict[str, str]:
    """The samples in the page, by name."""
    return {
        block["name"]: block[0].removeprefix(block[1]).removesuffix(block[3])
        for block in _BLOCK.finditer(page)
    }


if __name__ == "__main__":
    PAGE.write_text(_BLOCK.sub(lambda block: block[1] + printed(block["name"]) + block[3], PAGE.read_text()))
    print(PAGE)
