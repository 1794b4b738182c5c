"""Why a pod waits or has ended, in plain words."""

import json
from collections.abc import Callable
from dataclasses import asdict

import pytest

from operations.status.report import Health, Report
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.status import samples
from tests.operations.status.reading import line, why
from tests.operations.status.samples import (
    LICENCE,
    NS,
    ended,
    event,
    pod,
    unscheduled,
    waiting,
)

SECRET = "hf_planted_in_a_test"
NO_NODE = "pod didn't trigger scale-up"


PENDING = {
    "stockout": (
        unscheduled("p"),
        [event("p", "FailedScaleUp", "Node scale up in zones us-central1-a failed: GCE out of resources.")],
        "stockout: Google has no such machine there now",
    ),
    "quota": (
        unscheduled("p"),
        [event("p", "FailedScaleUp", "Node scale up in zones us-central1-a failed: GCE quota exceeded.")],
        "quota: the project may not have that many in the region",
    ),
    "no node fits": (
        unscheduled("p"),
        [
            event(
                "p",
                "NotTriggerScaleUp",
                "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity",
            )
        ],
        "no node that the cluster may make would take it",
    ),
    "pool at its largest": (
        unscheduled("p"),
        [event("p", "NotTriggerScaleUp", f"{NO_NODE}: 1 max node group size reached")],
        "its node pool is at its largest",
    ),
    "a node is coming": (
        unscheduled("p"),
        [
            event("p", "FailedScaleUp", "GCE out of resources", at="2026-11-21T09:00:00Z"),
            event("p", "TriggeredScaleUp", "pod triggered scale-up", at="2026-11-21T09:10:00Z"),
        ],
        "a node is being made for it",
    ),
    "not enough GPUs": (
        unscheduled("p", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu, 1 Insufficient cpu."),
        [],
        "no node has enough nvidia.com/gpu and cpu free",
    ),
    "wrong selector": (
        unscheduled("p", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."),
        [],
        "no node is what it asks for (reservation, GPU, zone)",
    ),
    "in the queue": (
        unscheduled("p", "Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        [],
        "waits in the queue: Kueue has not admitted it",
    ),
    "image pull": (
        waiting("p", "ImagePullBackOff", 'Back-off pulling image "us-docker.pkg.dev/p/images/x@sha256:aa"'),
        [],
        "its image cannot be pulled",
    ),
    "image missing": (
        waiting("p", "ErrImagePull", "failed to resolve us-docker.pkg.dev/p/images/x: not found, image"),
        [],
        "the image does not exist",
    ),
    "image forbidden": (
        waiting("p", "ErrImagePull", "failed to fetch oauth token: unexpected status: 403 Forbidden"),
        [],
        "the image may not be read",
    ),
    "secret missing": (
        waiting("p", "CreateContainerConfigError", 'secret "hf-token" not found'),
        [],
        "a secret or the code that it mounts is not there",
    ),
    "pulling": (
        waiting("p", "ContainerCreating"),
        [event("p", "Pulling", "Pulling image")],
        "its image is being pulled",
    ),
    "code not mounted": (
        waiting("p", "ContainerCreating"),
        [event("p", "FailedMount", 'MountVolume.SetUp failed for volume "code": configmap "x" not found')],
        "a secret or the code that it mounts is not there",
    ),
}


@pytest.mark.parametrize("case", PENDING)
def test_why_a_pod_waits_is_said_in_plain_words(
    case: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    tree, events, words = PENDING[case]
    cluster.plant(samples.PODS.format(NS), tree)
    cluster.plant(samples.EVENTS.format(NS), *events, event("another", "FailedScaleUp", "GCE quota exceeded"))
    assert why(look()) == words


ENDED = {
    "gated model": (
        ended("p", 2),
        LICENCE,
        "the model is gated: the token's account has not accepted its licence",
    ),
    "gated model, tried again": (
        samples.crashing("p", 1),
        "GatedRepoError: 403",
        "the model is gated: the token's",
    ),
    "unknown token": (
        ended("p", 2),
        "the Hub does not know the token in HF_TOKEN",
        "Hugging Face does not know",
    ),
    "GPU memory": (ended("p", 1), "torch.OutOfMemoryError: CUDA out of memory.", "the GPU's memory is full"),
    "memory": (ended("p", 137, "OOMKilled"), "", "it needed more memory than its limit"),
    "bad input": (ended("p", 2), "recipe x has no field y", "its input is wrong"),
    "anything else": (ended("p", 7), "", "it ended with exit code 7"),
    "told to stop": (ended("p", 143), "", "it was told to stop, and saved"),
}


@pytest.mark.parametrize("case", ENDED)
def test_why_a_container_ended_is_said_and_its_log_is_not_shown(
    case: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    tree, log, words = ENDED[case]
    cluster.plant(samples.PODS.format(NS), tree)
    cluster.plant_log(f"{samples.PODS.format(NS)}/p/log", f"loading with {SECRET}\n{log}\n")
    report = look()
    assert why(report).startswith(words)
    assert SECRET not in json.dumps(asdict(report))


def test_a_log_that_may_not_be_read_leaves_the_exit_code(
    look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS.format(NS), ended("p", 7))
    report = look()
    assert why(report) == "it ended with exit code 7"
    found = line(report, "pod").why
    assert found and found.remedy == "kubectl --namespace llm logs p"


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_pod_that_is_well_needs_no_words(
    phase: str, look: Callable[[], Report], cluster: KubernetesServer
) -> None:
    cluster.plant(samples.PODS.format(NS), pod("p", phase))
    found = line(look(), "pod")
    assert (found.why, found.health) == (None, Health.GOOD)


def test_an_evicted_pod_says_what_was_short(look: Callable[[], Report], cluster: KubernetesServer) -> None:
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."
    cluster.plant(samples.PODS.format(NS), pod("p", "Failed", reason="Evicted", message=message))
    assert why(look()) == "the disk of the pod or its node is full"
