"""What an `up` waits for, and what it does not."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import grpc
import pulumi
import pytest
from pulumi.runtime import settings
from pulumi.runtime.proto import engine_pb2_grpc

from components.base import retries
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from rehearsal.stock import QUEUED_FLEX_START
from tests import plans
from tests.rehearsal.small import COUNT, SETTINGS, TOKEN, Small

NETWORK, CLUSTER, JOB = (
    "gcp:compute/network:Network",
    "gcp:container/cluster:Cluster",
    "gcp:cloudrunv2/job:Job",
)
RAY_JOB, BINDING = "kubernetes:ray.io/v1:RayJob", "gcp:storage/bucketIAMMember:BucketIAMMember"
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
BUILD = "pulumi-python:dynamic/cloudbuild:Build"
DISABLED = (
    "googleapi: Error 403: Compute Engine API has not been used in project 123 before or it is disabled. "
    "Enable it by visiting https://console.developers.google.com/, then retry., accessNotConfigured"
)
NO_CRD = (
    'Verify that any required CRDs have been created: no matches for kind "RayJob" in version "ray.io/v1"'
)
NO_WEBHOOK = 'Internal error occurred: failed calling webhook "mclusterqueue.kb.io": 502 Bad Gateway'


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        (NETWORK, DISABLED, "enabled a moment ago"),
        (
            CLUSTER,
            "Error 403: Kubernetes Engine API is not enabled for this project. Please",
            "enabled a moment",
        ),
        (CLUSTER, "Consumer 1 should enable service:container.googleapis.com before", "enabled a moment ago"),
        (CLUSTER, 'Error 400: Service account "a@p.iam" does not exist., badRequest', "service account"),
        (
            JOB,
            "'iam.serviceaccounts.actAs' denied on service account a@p (or it may not exist)",
            "service account",
        ),
        (BINDING, "Error 400: Identity Pool does not exist (p.svc.id.goog). Please", "first cluster"),
        (RAY_JOB, NO_CRD, "GKE has not installed the kind RayJob yet, which may take an hour"),
        (RAY_JOB, "failed to determine if the following GVK is namespaced: ray.io/v1, Kind=RayJob", "RayJob"),
        (RAY_JOB, "unable to create new content in namespace llm because it is being terminated", "deleted"),
        (JOB, "namespace llm is being terminated", ""),
        (QUEUE, 'object is being deleted: namespaces "llm" already exists', "still being deleted"),
        (QUEUE, 'namespaces "llm" already exists', ""),
        (QUEUE, "the following GVK is namespaced: kueue.x-k8s.io/v1alpha1, Kind=ClusterQueue", ""),
        (QUEUE, NO_WEBHOOK, "webhook"),
        # A retry does not help.
        (NETWORK, "Error 403: Quota 'NETWORKS' exceeded. Limit: 5.0 globally., quotaExceeded", ""),
        (NETWORK, "Error 403: Required 'compute.networks.create' permission for 'projects/p'", ""),
        (RAY_JOB, 'no matches for kind "RayJobb" in version "batch/v1"', ""),
        (QUEUE, 'no matches for kind "ClusterQueue" in version "kueue.x-k8s.io/v1alpha1"', ""),
        (QUEUE, 'admission webhook "x.kb.io" denied the request: nominalQuota must be >= 0', ""),
        # A build retries by itself.
        (BUILD, DISABLED, ""),
        # Something exists already. After a retry it would exist twice.
        (CLUSTER, f"1 error occurred:\n\t* creating urn:pulumi:a::b::{CLUSTER}::c: 1 error: {DISABLED}", ""),
        (QUEUE, f'resource "q" was successfully created, but the API server reported: {NO_WEBHOOK}', ""),
    ],
)
def test_only_what_is_not_there_yet_is_waited_for(kind: str, message: str, words: str) -> None:
    refusal = retries.passing_refusal(kind, message)
    assert (refusal is not None) is bool(words)
    assert words in (refusal.reason if refusal else "")


# Shapes of stacks with all kinds that GKE installs.
SHAPES: list[tuple[str, dict[str, str]]] = [
    ("a4-ray", {"transport": "rdma"}),
    ("a4-accelerate", {"capacity_type": '["reservation", "spot"]', "egress": "googleAndHub"}),
    ("a4-accelerate", {"nodes": "2", "capacity_type": QUEUED_FLEX_START, "capacity_zone": "us-central1-b"}),
    ("l4-kueue", {"servingReplicas": '{"min": 1, "max": 3}'}),
]
# Groups that a cluster has from its first minute, or that Kueue's release brings before its objects.
THERE = re.compile(r"v1|kueue\.x-k8s\.io/.*|(apps|batch|autoscaling|policy)/.*|[a-z.]+\.k8s\.io/.*")


@pytest.mark.parametrize(("stack", "settings"), SHAPES)
def test_every_kind_that_gke_brings_is_waited_for_an_hour(stack: str, settings: dict[str, str]) -> None:
    created = [
        resource
        for resource in plans.shipped(stack, imageUri=plans.IMAGE, **settings).resources
        if resource.type.startswith("kubernetes:") and "kind" in resource.inputs
    ]
    late = {
        (resource.type, resource.inputs["kind"], resource.inputs["apiVersion"])
        for resource in created
        if not THERE.fullmatch(resource.inputs["apiVersion"])
    }
    assert late
    for token, kind, version in sorted(late):
        refusal = retries.passing_refusal(token, f'no matches for kind "{kind}" in version "{version}"')
        assert refusal, version
        assert kind in refusal.reason
        # An attempt takes half a minute, and the pause ten seconds.
        assert refusal.retries * 40 >= 3600


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def rehearsal(lines: list[str]) -> Iterator[Rehearsal]:
    def program() -> None:
        retries.wait_out_refusals()
        Small()()

    with Rehearsal("small", SETTINGS, program, progress=lines.append) as rehearsal:
        yield rehearsal


def test_an_api_that_was_just_enabled_needs_no_second_up(rehearsal: Rehearsal, lines: list[str]) -> None:
    rehearsal.faults.add(["network"], DISABLED, times=2)
    assert rehearsal.up().changes == {"create": COUNT}
    waited = [line for line in lines if "network waits: its Google API was enabled a moment ago" in line]
    assert any("1 of at most 48 times" in line for line in waited)
    assert any("2 of at most 48 times" in line for line in waited)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "Error 403: Quota 'NETWORKS' exceeded",
            "a quota is used up, NETWORKS: ask for more at https://console.cloud.google.com/iam-admin",
        ),
        (
            "Error 403: forbidden",
            "the account that runs `pulumi up` may not do this: `python -m operations preflight --stack",
        ),
    ],
)
def test_what_does_not_pass_is_told_at_once_with_its_remedy(
    rehearsal: Rehearsal, lines: list[str], message: str, remedy: str
) -> None:
    rehearsal.faults.add(["network"], f"googleapi: {message}", times=2)
    with pytest.raises(RehearsalError, match=f"network: .*{message}"):
        rehearsal.up()
    assert rehearsal.faults.pending == {"network"}
    assert any(f"network: {remedy}" in line for line in lines)


def test_nobody_waits_for_ever_and_the_platform_has_the_last_word(rehearsal: Rehearsal) -> None:
    rehearsal.faults.add(["namespace"], NO_WEBHOOK, times=99)
    with pytest.raises(RehearsalError, match=r"namespace: .*failed calling webhook"):
        rehearsal.up()
    assert rehearsal.faults.pending == {"namespace"}


def test_who_waits_is_not_shown_what_an_error_quotes(rehearsal: Rehearsal, lines: list[str]) -> None:
    rehearsal.faults.add(["token"], f"{NO_WEBHOOK} for {TOKEN}")
    rehearsal.up()
    assert any("token waits" in line for line in lines)
    assert not any(TOKEN in line for line in lines)


@pytest.mark.parametrize("stack", ["a4-ray"])
def test_a_first_up_of_a_stack_waits_for_apis_for_accounts_and_for_the_kinds_of_the_ray_add_on(
    stack: str,
) -> None:
    lines: list[str] = []
    with Rehearsal(stack, progress=lines.append) as rehearsal:
        rehearsal.up()
    for waiting in (
        f"{stack}-network waits: its Google API",
        f"{stack}-cluster waits: a service account",
        f"{stack}-ray-job waits: GKE has not installed the kind RayJob yet",
    ):
        assert any(waiting in line for line in lines)


@pytest.mark.parametrize("stack", plans.STACKS)
def test_every_resource_of_a_stack_waits(stack: str) -> None:
    created = [
        resource
        for resource in plans.shipped(stack).resources
        if resource.type.startswith(("gcp:", "kubernetes:"))
    ]
    assert {tuple(resource.options["resourceHooks"]["OnError"]) for resource in created} == {
        ("wait-out-refusals",)
    }


def test_an_engine_that_is_too_old_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "OLDEST_ENGINE", "99.0.0")
    stack = plans.STACKS[0]
    with Rehearsal(stack) as rehearsal, pytest.raises(RehearsalError) as refused:
        rehearsal.preview()
    assert str(refused.value).startswith("this program needs Pulumi 99.0.0 or newer (Pulumi CLI version 3.")
    assert "\n" not in str(refused.value)


def test_so_is_one_that_cannot_even_be_asked() -> None:
    """An engine from before 2026 does not know the question."""
    server = grpc.server(ThreadPoolExecutor(1))
    engine_pb2_grpc.add_EngineServicer_to_server(engine_pb2_grpc.EngineServicer(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with pytest.raises(
            pulumi.RunError, match=r"^this program needs Pulumi \S+ or newer \(.*does not support"
        ):
            copy_context().run(_wait_out_refusals, address)
    finally:
        server.stop(grace=0).wait()


def _wait_out_refusals(engine: str) -> None:
    settings.configure(settings.Settings("small", "small", engine=engine))
    retries.wait_out_refusals()
