"""`capacity.type queuedFlexStart`: all nodes of a job or none, on a Standard cluster."""

import json

import pytest

from engine.plan import Plan
from operations.checks.quotas import Quota, needs_of
from operations.plan import StackPlan
from rehearsal.fakes.cloud import NODE_POOL
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.configuration import A4_ACCELERATE, A4_RAY, L4_KUEUE, TPU_MAXTEXT, by_scenario, problems

TYPE, ZONE = "llm-stacks:capacity.type", "llm-stacks:capacity.zone"
QUEUED = "queuedFlexStart"
SETTINGS = {
    "imageUri": plans.IMAGE,
    "nodes": "2",
    "capacity_type": QUEUED,
    "capacity_zone": "us-central1-b",
    "maxRunHours": "48",
}
NO_RESERVATION = {"llm-stacks:capacity.reservation": None}
ELSEWHERE = (
    "starts the machines of one Job together, and this stack has no such Job; name one of reservation, "
    "onDemand, spot, flexStart"
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plans.shipped("a4-accelerate", **SETTINGS)


def test_the_pool_has_machines_only_by_requests_and_never_more_than_the_job_needs(plan: Plan) -> None:
    (pool,) = (pool.inputs for pool in plans.node_pools(plan) if plans.is_accelerated(pool))
    assert pool["queuedProvisioning"] == {"enabled": True}
    assert pool["nodeLocations"] == ["us-central1-b"]
    assert pool["autoscaling"] == {"locationPolicy": "ANY", "totalMaxNodeCount": 2, "totalMinNodeCount": 0}
    # GKE refuses repairs, a reservation, and an end that the request states.
    assert pool["management"]["autoRepair"] is False
    assert pool["nodeConfig"]["flexStart"] is True
    assert pool["nodeConfig"]["diskType"] == "hyperdisk-balanced"
    # Their quota, and not that of persistent disks.
    needs = needs_of(
        StackPlan(
            stack="a4-accelerate",
            project="my-project",
            region="us-central1",
            configuration={},
            resources=tuple(plan.resources),
        )
    )
    assert needs[Quota(metric="hdb_total_gb")] == 2 * pool["nodeConfig"]["diskSizeGb"]
    assert pool["nodeConfig"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "maxRunDuration" not in pool["nodeConfig"]


def test_the_job_starts_when_kueue_has_all_its_nodes_for_its_hours(plan: Plan) -> None:
    config = plans.only(plan, ":ProvisioningRequestConfig").inputs
    assert config["spec"]["provisioningClassName"] == "queued-provisioning.gke.io"
    assert config["spec"]["managedResources"] == ["nvidia.com/gpu"]
    # Two hours more than the training may take, for images and for what is lost.
    assert config["spec"]["parameters"] == {"maxRunDurationSeconds": str(50 * 3600)}
    check = plans.only(plan, ":AdmissionCheck").inputs
    assert check["spec"]["parameters"]["name"] == config["metadata"]["name"]
    queue = plans.only(plan, ":ClusterQueue").inputs["spec"]
    assert queue["admissionChecksStrategy"] == {"admissionChecks": [{"name": check["metadata"]["name"]}]}
    job = plans.training(plan).inputs
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "accelerators"}
    # Kueue writes the node selector and the toleration into the pods.
    assert "cloud.google.com" not in json.dumps(job["spec"]["template"]["spec"])
    flavor = plans.only(plan, ":ResourceFlavor").inputs["spec"]
    assert flavor["tolerations"][0]["key"] == "cloud.google.com/gke-queued"


def test_kueue_starts_after_the_kind_of_its_requests(plan: Plan) -> None:
    """It looks for the kind once, when it starts."""
    (request,) = plans.of_type(plan, ":ProvisioningRequest")
    assert request in plans.awaited(plan, plans.only(plan, ":Release"))
    (pool,) = (pool for pool in plans.node_pools(plan) if plans.is_accelerated(pool))
    template = plans.only(plan, ":PodTemplate")
    assert {pool.urn, template.urn} <= {awaited.urn for awaited in plans.awaited(plan, request)}
    # GKE serves another class, so this request costs nothing.
    assert request.inputs["spec"]["provisioningClassName"].endswith(".invalid")
    (pods,) = request.inputs["spec"]["podSets"]
    assert pods["podTemplateRef"]["name"] == template.inputs["metadata"]["name"]


def test_a_label_that_gke_writes_on_the_pool_is_left_alone() -> None:
    with Rehearsal("a4-accelerate", plans.keys(SETTINGS)) as rehearsal:
        rehearsal.up()
        (pool,) = (
            pool for pool in rehearsal.cloud.of_type(NODE_POOL) if pool.inputs.get("queuedProvisioning")
        )
        pool.outputs["nodeConfig"]["labels"] = {"autoscaling.gke.io/provisioning-request": "gke-training-x"}
        rehearsal.refresh()
        assert rehearsal.preview().changed == 0


BAD: list[tuple[dict[str, str | None], str]] = [
    (
        {**A4_ACCELERATE, **NO_RESERVATION, TYPE: QUEUED},
        f"capacity.zone: missing, and the machines of {QUEUED} start in one zone; name it with `pulumi "
        "config set capacity.zone ZONE`",
    ),
    (
        {**A4_ACCELERATE, TYPE: f'["reservation", "{QUEUED}"]', ZONE: "us-central1-b"},
        f"capacity.type: {QUEUED} waits until all machines of the job are there, so a list never "
        "gets past it; name it alone",
    ),
    (
        {**A4_ACCELERATE, TYPE: QUEUED, ZONE: "us-central1-b"},
        f"capacity.reservation: only capacity.type reservation consumes a reservation, and {QUEUED} would "
        "ignore it; remove capacity.reservation or set capacity.type to reservation",
    ),
    ({**A4_RAY, **NO_RESERVATION, TYPE: QUEUED}, f"capacity.type: {QUEUED} {ELSEWHERE}"),
    ({**L4_KUEUE, TYPE: QUEUED}, f"capacity.type: {QUEUED} {ELSEWHERE}"),
    ({**TPU_MAXTEXT, TYPE: QUEUED}, f"capacity.type: {QUEUED} {ELSEWHERE}"),
]


@pytest.mark.parametrize(("changes", "message"), by_scenario(BAD))
def test_what_cannot_start_together_is_refused_in_one_line(
    changes: dict[str, str | None], message: str
) -> None:
    assert problems(changes) == [message]
