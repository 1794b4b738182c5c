"""The samples in docs/operations.md and its sequel: what the commands print against the tests' servers.

python -m tests.operations.samples             runs them and rewrites the pages
python -m tests.operations.samples preflight   prints one
"""

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from rich.console import Console

from cloud.discovery import Call
from cloud.services.serviceusage import SERVICE
from operations.__main__ import main
from operations.checks import hub
from operations.cost.prices import known
from operations.cost.quantities import by_use, quantities
from operations.google.clients import Clients
from operations.leftovers import command as leftovers
from operations.leftovers.footprint import footprints
from operations.leftovers.search import search
from operations.plan import StackPlan
from operations.state import Resource, State
from operations.status import command as status
from operations.status.cluster import from_kubeconfig
from operations.status.look import look
from tests.operations.capacity.capacity_answers import NOW, Advice, days, score
from tests.operations.good_project import GoodProject, access
from tests.operations.google_server import Fault, GoogleServer, Page
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.planned import planned, planned_once
from tests.operations.project import PROJECT, REGION, ZONE, Project
from tests.operations.status import samples
from tests.operations.status.samples import condition, event, pod, unscheduled, using, workload

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = (DOCS / "operations.md", DOCS / "operations-after.md", DOCS / "capacity.md")
WIDTH: Final = 118
# A block of a page that is what a command prints, by the command's name.
_BLOCK: Final = re.compile(r"(<!-- printed by: (?P<name>\w+) -->\n```text\n).*?(```\n)", re.DOTALL)
# The catalog's unit for each of ours, for SKUs that cost a dollar.
_UNITS: Final = {"GiB-hour": "GiBy.h", "GiB-month": "GiBy.mo", "GiB": "GiBy"}

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


def _preflight(server: GoogleServer) -> None:
    """A project in which much is missing for a4-ray."""
    good = GoodProject(server)
    mine = "capacity.reservation=my-reservation"
    plan = good.plan("a4-ray", mine)
    enabled = [str(service.inputs["service"]) for service in plan.of_type(SERVICE.type)]
    good.apis([name for name in enabled if not name.startswith("cloudbuild")])
    good.permissions("container.clusters.create", "container.clusters.delete")
    good.reservation(used=3)
    gated = Page(code=403, content={}, headers={"X-Error-Code": "GatedRepo"})
    server.plant_page(access("model", "google/gemma-3-4b-it"), gated)
    _run(server, "preflight", "--stack", "a4-ray", settings=(mine,))


def _cost(server: GoogleServer) -> None:
    """A catalog in which everything of l4-kueue costs a dollar, but for what it does not have."""
    sell(server, planned("l4-kueue"), without="e2.memory.onDemand")
    _run(server, "cost", "--stack", "l4-kueue", "--hours", "2")


def _capacity(server: GoogleServer) -> None:
    """For a4-ray flex-start is likely, spot lives for a minute, and half of the nodes are reserved."""
    good = GoodProject(server)
    mine = "capacity.reservation=my-reservation"
    good.plan("a4-ray", mine)
    good.reservation(machine="a4-highgpu-8g", count=2, used=1)
    advice = Advice(server)
    zone = good.a4_zone
    advice.scores = {
        ("FLEX_START", zone): score(0.8, zone, None),
        ("SPOT", zone): score(0.6, zone, "60s"),
    }
    advice.histories[zone] = days(0.5, 0.7, 0.2, 0.1, 0.3, 0.2, 0.4)
    window = {"location": f"zones/{zone}", "startTime": "2026-12-05T00:00:00Z"}
    advice.calendar = {"recommendations": [{"recommendationsPerSpec": {"nodes": window}}]}
    with patch("operations.capacity.command.current_time", lambda: NOW):
        _run(server, "capacity", "--stack", "a4-ray", settings=(mine,))


def sell(server: GoogleServer, plan: StackPlan, without: str = "") -> None:
    """Lets the catalog have everything of a plan for a dollar, but for what has the key `without`."""
    skus: dict[str, list[dict[str, Any]]] = {}
    for item in [*quantities(plan), *by_use(plan)]:
        described = known()[item.key]
        if described and item.key != without:
            service, pattern = described
            description = re.sub(r"\.\*$|\(.*\)\?$", "", pattern).replace("\\", "")
            skus.setdefault(service, []).append(sku(description, 0, unit=_UNITS.get(item.unit, "h"), units=1))
    for service, listed in skus.items():
        server.plant(
            "cloudbilling.v1", "cloudbilling.services.skus.list", {"skus": listed}, servicesId=service
        )


def sku(
    description: str, nanos: int, *regions: str, unit: str = "h", units: int = 0, free: bool = False
) -> dict[str, Any]:
    """The catalog's entry for an item, with a free amount or without."""
    price = {"currencyCode": "USD", "units": str(units), "nanos": nanos}
    tiers = [{"unitPrice": {"units": "0"}}] * free + [{"unitPrice": price}]
    return {
        "skuId": "0000-0000-0000",
        "description": description,
        "serviceRegions": list(regions) or [REGION],
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": tiers}}],
    }


def _run(server: GoogleServer, *words: str, settings: tuple[str, ...] = ()) -> None:
    with patch.object(hub, "read_token", return_value="hf_planted_in_a_test"), planned_once(*settings):
        main([*words, "--endpoint", server.address])


def _state() -> State:
    resources = [
        Resource(type=type_, id=id_, outputs={}, name=re.sub("-[0-9a-f]{7}.*", "", id_.rpartition("/")[2]))
        for type_, id_ in _NAMES.items()
    ]
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
    (wanted,) = footprints(plan, State(), [_state()], [])
    findings = search(Clients(PROJECT, server.address), wanted, lambda _: None)
    leftovers.show(findings, "l4-kueue", Console(width=WIDTH))


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
        job = {"metadata": {"name": "gemma-3-4b-sql-0c51b8e2"}, "spec": {"suspend": True}}
        kubernetes.plant(samples.JOBS, job)
        serving = {"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}
        kubernetes.plant(samples.DEPLOYMENTS, {"metadata": {"name": "serving"}, **serving})
        kubernetes.plant(
            samples.WORKLOADS,
            workload("pod-serving-9c8d7-1", *admitted, priority=20),
            workload("pod-serving-9c8d7-2", *admitted, priority=20),
            workload("job-gemma-3-4b-sql-0c51b8e2-4f60a", *preempted),
        )
        first, second = "serving-9c8d7-1", "serving-9c8d7-2"
        kubernetes.plant(samples.PODS, using(pod("Running", name=first)), using(unscheduled(name=second)))
        kubernetes.plant(samples.EVENTS, event("FailedScaleUp", stockout, about=second))
        clients, kubeconfig = Clients(PROJECT, server.address), kubernetes.kubeconfig(Path(folder))
        report = look("l4-kueue", _state(), clients, from_kubeconfig(kubeconfig))
        Console(width=WIDTH).print(status.drawn(report, datetime(2026, 11, 21, 10, 0, tzinfo=UTC)))


def _metrics(call: Call, _body: Any) -> Any:
    if call.address["object"].endswith("/COMPLETE.json"):
        raise Fault(code=404)
    if call.query.get("alt") == "media":
        line = {"step": 60, "steps": 200, "loss": 0.8312, "tokens_per_second": 1043.0, "seconds_left": 5400.0}
        raise Fault(body=json.dumps(line).encode())
    return {"name": call.address["object"], "updated": "2026-11-21T09:41:00Z"}


class Sample(NamedTuple):
    """What prints a sample, and the stack that it is about."""

    stack: str
    show: Callable[[GoogleServer], None]


SAMPLES: Final = {
    "preflight": Sample("a4-ray", _preflight),
    "cost": Sample("l4-kueue", _cost),
    "capacity": Sample("a4-ray", _capacity),
    "leftovers": Sample("l4-kueue", _leftovers),
    "status": Sample("l4-kueue", _status),
}


def printed(name: str) -> str:
    """What a sample's command prints."""
    output = io.StringIO()
    with GoogleServer() as server, redirect_stdout(output):
        SAMPLES[name].show(server)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def shown() -> dict[str, str]:
    """The samples in the pages, by name."""
    return {
        block["name"]: block[0].removeprefix(block[1]).removesuffix(block[3])
        for page in PAGES
        for block in _BLOCK.finditer(page.read_text())
    }


if __name__ == "__main__" and sys.argv[1:]:
    print("".join(printed(name) for name in sys.argv[1:]), end="")
elif __name__ == "__main__":
    for page in PAGES:
        page.write_text(
            _BLOCK.sub(lambda block: block[1] + printed(block["name"]) + block[3], page.read_text())
        )
        print(page)
