"""Which capacity of a list is tried, since when, and which had no machines."""

import json
from collections.abc import Callable

import pytest

from operations.status.report import Report
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.status import samples
from tests.operations.status.samples import condition, line, workload
from workloads.capacity_keeper.annotations import STOPPED, TRIED

CLASSES = "/apis/cloud.google.com/v1/computeclasses"
ADMITTED = condition("QuotaReserved", True), condition("Admitted", True, since="2026-11-21T10:32:00Z")
TRIES = [{"capacity": "reservation", "from": "2026-11-21T10:02:00Z", "to": "2026-11-21T10:32:00Z"}]


def test_status_says_which_capacity_is_tried_and_which_had_no_machines(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    job = workload("job", *ADMITTED)
    job["metadata"]["annotations"] = {TRIED: json.dumps(TRIES)}
    assigned = [{"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "flex-start"}}]
    job["status"]["admission"] = {"podSetAssignments": assigned}
    cluster.plant(samples.WORKLOADS, job)
    shown = line(look(), "queue")
    assert (shown.state, shown.detail) == ("admitted", "llm, low, flex-start since 10:32")
    assert shown.why and shown.why.text == "no nodes for all its pods: reservation 10:02 to 10:32"
    assert not shown.why.bad


def test_a_job_that_the_keeper_has_stopped_is_not_said_to_be_switched_off(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    job = workload("job", condition("QuotaReserved", False))
    job["metadata"]["annotations"] = {TRIED: json.dumps(TRIES), STOPPED: "true"}
    job["spec"]["active"] = False
    cluster.plant(samples.WORKLOADS, job)
    assert line(look(), "queue").state == "goes to other nodes"


def test_a_job_that_waits_for_all_its_nodes_says_that_none_costs_and_what_gke_says(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    job = workload("job", condition("QuotaReserved", True))
    assigned = [{"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "queued-flex-start"}}]
    job["status"]["admission"] = {"podSetAssignments": assigned}
    job["status"]["admissionChecks"] = [{"name": "all-nodes", "state": "Pending", "message": "Zone is full."}]
    cluster.plant(samples.WORKLOADS, job)
    shown = line(look(), "queue")
    assert (shown.state, shown.detail) == ("waits for all its nodes", "llm, low, queued-flex-start")
    assert shown.why and shown.why.text == "no node costs until all are there; GKE: Zone is full."
    assert not shown.why.bad


def compute_class(**status: object) -> dict[str, object]:
    """A class of two capacities."""
    rules = [{"reservations": {"affinity": "Specific"}}, {"spot": True}]
    return {"metadata": {"name": "accelerators"}, "spec": {"priorities": rules}, "status": status}


# A reason of GKE, the capacity that it is about, what is said, and whether somebody must do something.
REASONS = [
    ("OutOfResources", "1", "spot: Google has no such machines now. GKE tries again", False),
    ("CapacityConstrained", "1", "spot: GKE expects too few machines, which is an estimate", False),
    ("ReservationCapacityExceeded", "0", "reservation: all machines of the reservation are in use", False),
    ("RESERVATION_CAPACITY_EXCEEDED", "0", "reservation: all machines of the reservation are in use", False),
    ("InternalError", "1", "spot: Google's side failed", False),
    ("QuotaExceeded", "1", "spot: the project's quota is used up", True),
    ("IpSpaceExhausted", "1", "spot: the subnet has no addresses left", True),
    ("InvalidReservation", "0", "reservation: GKE cannot use the reservation", True),
    ("InvalidReservation", "1", "spot: Google has no such machines now", False),
    ("VmExternalIpAccessPolicyConstraint", "1", "spot: a policy of the organisation forbids", True),
    ("AReasonOfALaterGke", "1", "spot: AReasonOfALaterGke. GKE tries again", False),
]


@pytest.mark.parametrize(("reason", "rule", "text", "needs_a_person"), REASONS)
def test_each_reason_of_a_capacity_without_machines_is_a_sentence(
    reason: str,
    rule: str,
    text: str,
    needs_a_person: bool,
    look: Callable[[], Report],
    cluster: KubernetesServer,
) -> None:
    suspended = [condition("ProvisioningSuspended", True, reason)]
    cluster.plant(CLASSES, compute_class(priorityStatuses=[{"identifier": rule, "conditions": suspended}]))
    shown = line(look(), "capacity")
    assert shown.state == ("tries spot" if rule == "0" else "tries reservation")
    assert shown.why and shown.why.text.startswith(text)
    assert shown.why.bad is needs_a_person and shown.why.remedy


def test_a_capacity_without_machines_in_some_zones_is_tried_in_the_others(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    constrained = [condition("ProvisioningConstrained", True, "OutOfResources")]
    cluster.plant(CLASSES, compute_class(priorityStatuses=[{"identifier": "0", "conditions": constrained}]))
    shown = line(look(), "capacity")
    assert shown.state == "tries reservation"
    assert shown.why and shown.why.text.startswith("reservation: in some zones Google has no such machines")


def test_a_class_that_gke_cannot_use_needs_a_person(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    message = 'Reservation "mine" either does not exist or not accessible.'
    wrong = [condition("RuleMisconfigured", True, "ReservationNotFound", message)]
    cluster.plant(CLASSES, compute_class(conditions=wrong))
    shown = line(look(), "capacity")
    assert shown.why and shown.why.bad
    assert shown.why.text.startswith("the reservation cannot be used")
