"""What must hold of the a4-ray stack, on the real engine."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.plan import Plan
from rehearsal import Rehearsal, RehearsalError
from stacks import pins
from tests import plans

STACK = "a4-ray"
ROOT = Path(__file__).parent.parent.parent


# Identities and what they may do


def test_only_the_trainings_own_service_account_writes_to_the_bucket(standing: Rehearsal) -> None:
    members = {
        item.inputs["member"]
        for item in standing.cloud.of_type("gcp:storage/bucketIAMMember:BucketIAMMember")
    }
    (member,) = members
    assert re.fullmatch(
        r"principal://iam\.googleapis\.com/projects/\d+/locations/global/workloadIdentityPools/"
        r"rehearsal-project\.svc\.id\.goog/subject/ns/ray/sa/finetune",
        member,
    )


def test_the_nodes_may_pull_the_image_and_nothing_else(plan: Plan, plan_with: Callable[..., Plan]) -> None:
    pull = plans.only(plan, ":RepositoryIamMember").inputs
    assert (pull["repository"], pull["role"]) == ("images", "roles/artifactregistry.reader")
    elsewhere = plan_with(imageUri=f"docker.io/team/finetune@sha256:{'a' * 64}")
    assert not plans.of_type(elsewhere, ":RepositoryIamMember")


# Pods


def test_a_job_has_a_head_workers_and_a_submitter(plan: Plan) -> None:
    named = {name.split("/")[1] for name, _ in plans.containers(plan)}
    assert named == {"ray-head", "ray-worker", "ray-job-submitter"}


def test_ray_in_the_manifest_is_the_ray_in_the_image() -> None:
    locked = (ROOT / "workloads" / "finetune" / "requirements.txt").read_text()
    assert re.search(rf"^ray(\[[a-z,]+\])?=={re.escape(pins.RAY_VERSION)}\b", locked, re.MULTILINE)


def test_only_the_namespace_and_the_platform_reach_ray(plan: Plan) -> None:
    policies = {resource.name: resource.inputs["spec"] for resource in plans.of_type(plan, ":NetworkPolicy")}
    everyone_inside = policies["a4-ray-ingress-from-inside"]
    assert everyone_inside == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }
    for rule in policies["a4-ray-ingress-from-platform"]["ingress"]:
        assert all("namespaceSelector" in peer for peer in rule["from"])
        assert {port["port"] for port in rule["ports"]} in ({8265}, {8080})


# Capacity


@pytest.mark.parametrize(
    ("overrides", "selectors"),
    [
        ({"capacity_type": "spot"}, {"cloud.google.com/gke-spot": "true"}),
        ({"capacity_type": "flexStart"}, {"cloud.google.com/gke-flex-start": "true"}),
        ({"capacity_type": "onDemand"}, {}),
        (
            {"capacity_reservation": "projects/owner-project/reservations/b200"},
            {
                "cloud.google.com/reservation-affinity": "specific",
                "cloud.google.com/reservation-name": "b200",
                "cloud.google.com/reservation-project": "owner-project",
            },
        ),
    ],
)
def test_the_workers_ask_for_b200_of_the_capacity(
    overrides: dict, selectors: dict, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(**overrides)
    (workers,) = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert workers["template"]["spec"]["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "nvidia-b200",
        "cloud.google.com/gke-gpu-driver-version": "latest",
        **selectors,
    }


def test_as_many_processes_are_started_as_there_are_gpus(plan_with: Callable[..., Plan]) -> None:
    spec = plans.only(plan_with(workers="3"), ":ray.io/v1:RayJob").inputs["spec"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (3, 3, 3)


# What runs again, and what does not


def test_one_changed_line_of_training_code_replaces_the_code_and_the_job(
    training_code: Path, next_plan: Callable[..., Plan]
) -> None:
    training_code.write_text(training_code.read_text() + "# one line more\n")
    assert plans.changes(next_plan()) == {"a4-ray-code": "replace", "a4-ray-ray-job": "replace"}


def test_on_a_shared_ray_cluster_it_replaces_no_more(training_code: Path) -> None:
    with Rehearsal(STACK, {"rayCluster": "shared"}) as rehearsal:
        rehearsal.up()
        training_code.write_text(training_code.read_text() + "# one line more\n")
        assert plans.changes(rehearsal.preview()) == {"a4-ray-code": "replace", "a4-ray-ray-job": "replace"}
        rehearsal.up()
        assert rehearsal.preview().changed == 0


def test_another_reservation_runs_the_job_again_and_resumes_its_run(
    standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    before, plan = _job(standing), next_plan(capacity_reservation="another")
    assert set(plans.changes(plan)) == {"a4-ray-ray-job"}
    after = plans.only(plan, ":ray.io/v1:RayJob").inputs
    assert before["metadata"]["name"] != after["metadata"]["name"]
    assert before["spec"]["entrypoint"] == after["spec"]["entrypoint"]


def test_another_image_is_another_run(standing: Rehearsal, next_plan: Callable[..., Plan]) -> None:
    plan = next_plan(imageUri=f"docker.io/team/finetune@sha256:{'b' * 64}")
    after = plans.only(plan, ":ray.io/v1:RayJob").inputs
    assert after["spec"]["entrypoint"] != _job(standing)["spec"]["entrypoint"]


def _job(rehearsal: Rehearsal) -> dict:
    (job,) = rehearsal.cloud.of_type("kubernetes:ray.io/v1:RayJob")
    return job.inputs


# Jobs and clusters


def test_a_job_brings_its_own_ray_cluster_and_takes_it_down(plan: Plan) -> None:
    spec = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert "clusterSelector" not in spec
    assert not plans.of_type(plan, ":ray.io/v1:RayCluster")


def test_a_shared_ray_cluster_outlives_its_jobs(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(rayCluster="shared")
    cluster = plans.only(plan, ":ray.io/v1:RayCluster")
    spec = plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": cluster.inputs["metadata"]["name"]}
    assert spec["backoffLimit"] == 0
    assert not {"rayClusterSpec", "shutdownAfterJobFinishes"} & set(spec)


def test_up_does_not_wait_for_the_training_unless_it_is_told_to(
    plan: Plan, plan_with: Callable[..., Plan]
) -> None:
    assert "annotations" not in plans.only(plan, ":ray.io/v1:RayJob").inputs["metadata"]
    waiting = plans.only(plan_with(waitForTraining="true"), ":ray.io/v1:RayJob")
    assert "pulumi.com/waitFor" in waiting.inputs["metadata"]["annotations"]


def test_up_that_waits_ends_well_with_the_training() -> None:
    with Rehearsal(STACK, {"waitForTraining": "true"}) as rehearsal:
        rehearsal.up()
        assert rehearsal.preview().changed == 0


def test_up_that_waits_fails_with_the_training() -> None:
    with Rehearsal(STACK, {"waitForTraining": "true"}) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match="the training failed: RayJob gemma-3-4b-vision-"):
            rehearsal.up()
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


# Order


def test_the_cluster_waits_for_what_it_needs_and_no_more(plan: Plan) -> None:
    cluster = plans.named(plan, "a4-ray-cluster")
    assert plans.ancestors(plan, cluster) == {
        "a4-ray-compute",
        "a4-ray-container",
        "a4-ray-iam",
        "a4-ray-cloudresourcemanager",
        "a4-ray-artifactregistry",
        "a4-ray-network",
        "a4-ray-subnet",
        "a4-ray-nodes",
        "a4-ray-nodes-role",
    }


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("a4-ray-bucket", {"a4-ray-storage"}),
        ("a4-ray-hf-token-version", {"a4-ray-secretmanager", "a4-ray-hf-token"}),
        ("a4-ray-nat", {"a4-ray-compute", "a4-ray-network", "a4-ray-router"}),
    ],
)
def test_what_needs_no_cluster_waits_for_none(plan: Plan, name: str, needed: set[str]) -> None:
    assert plans.ancestors(plan, plans.named(plan, name)) == needed


def test_the_job_starts_when_everything_that_its_pods_use_is_there(plan: Plan) -> None:
    job = plans.named(plan, "a4-ray-ray-job")
    assert {
        "a4-ray-ingress-from-inside",
        "a4-ray-ingress-from-platform",
        "a4-ray-service-account",
        "a4-ray-hf-token-for-pods",
        "a4-ray-code",
        "a4-ray-finetune-objects",
        "a4-ray-finetune-metadata",
        "a4-ray-nat",
        "a4-ray-nodes-pull-images",
    } <= plans.ancestors(plan, job)
