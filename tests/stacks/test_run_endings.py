"""How a training ends: what its Job does after an exit code, and what an `up` that waits for it says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import pytest

from cloud.services.kubernetes import prepares
from engine.plan import Plan
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import inventory, plans
from workloads.shared.exit_codes import EXIT_CODES, Retry

ON_GKE: Final = plans.stacks_with("recipe", "clusterName")
JOB: Final = "kubernetes:batch/v1:Job"
RAY_JOB: Final = "kubernetes:ray.io/v1:RayJob"
# Ray counts its own retries.
ON_GKE_BY_RAY: Final = [stack for stack in ON_GKE if RAY_JOB in inventory.types(stack)]
ON_GKE_BY_JOB: Final = [stack for stack in ON_GKE if stack not in ON_GKE_BY_RAY]
AWAITABLE: Final = plans.stacks_with("waitForTraining")
# An image for every `up` of a case: with another image the training runs again.
IMAGES: Final = (plans.IMAGE, f"docker.io/team/finetune@sha256:{'b' * 64}")


# What ends a Job


def planned(stack: str) -> Plan:
    return plans.shipped(stack, imageUri=plans.IMAGE)


@pytest.mark.parametrize("stack", ON_GKE_BY_JOB)
def test_a_job_does_after_each_exit_code_what_the_table_says(stack: str) -> None:
    spec = plans.training(planned(stack)).inputs["spec"]
    pod = spec["template"]["spec"]
    actions = {}
    for rule in spec["podFailurePolicy"]["rules"]:
        if codes := rule.get("onExitCodes"):
            assert codes["containerName"] == pod["containers"][0]["name"]
            actions |= dict.fromkeys(codes["values"], rule["action"])
    assert actions == {
        code: meaning.retry for code, meaning in EXIT_CODES.items() if code and meaning.retry != Retry.COUNTED
    }
    assert pod["restartPolicy"] == "Never"


@pytest.mark.parametrize("stack", ON_GKE_BY_JOB)
def test_a_job_does_not_count_a_node_that_goes(stack: str) -> None:
    rules = plans.training(planned(stack)).inputs["spec"]["podFailurePolicy"]["rules"]
    node_goes = [{"type": "DisruptionTarget", "status": "True"}]
    assert {"action": "Ignore", "onPodConditions": node_goes} in rules


@pytest.mark.parametrize("stack", ON_GKE_BY_RAY)
def test_ray_drains_a_node_for_most_of_the_time_that_its_pod_has(stack: str) -> None:
    cluster = plans.training(planned(stack)).inputs["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        variables = pod["containers"][0]["env"]
        environment = {variable["name"]: variable.get("value") for variable in variables}
        seconds = int(environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
        assert 30 < seconds < pod["terminationGracePeriodSeconds"]


# What `up` waits for


@dataclass(frozen=True, kw_only=True)
class Up:
    """An `up` that waits for its training.

    Args:
        outcome: How the training ends.
        message: What `up` says then, with `STACK` for the stack. Empty if it succeeds.
    """

    outcome: Literal["Complete", "Failed", "Stopped", "Rejected"]
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stack with `waitForTraining`, and its `up`s one after the other.

    Args:
        name: What must hold.
        stacks: The stacks of which it holds.
        quick: Those that need no `--slow`.
        ups: Each runs another image.
    """

    name: str
    stacks: list[str]
    quick: list[str]
    ups: tuple[Up, ...]


CASES: Final = (
    Case(
        name="up succeeds with the training and fails with it",
        stacks=AWAITABLE,
        quick=["a4-accelerate"],
        ups=(
            Up(outcome="Complete"),
            Up(outcome="Failed", message="STACK-job|the training failed: RayJob"),
        ),
    ),
    Case(
        name="a Ray job that somebody stops is no success",
        stacks=["a4-ray"],
        quick=["a4-ray"],
        ups=(
            Up(
                outcome="Stopped",
                message="the training failed: RayJob .*: it was stopped: .*watchTraining",
            ),
        ),
    ),
    Case(
        name="a Ray job that the operator rejects is no success",
        stacks=["a4-ray"],
        quick=["a4-ray"],
        ups=(
            Up(
                outcome="Rejected",
                message="the Ray operator rejects RayJob .*, and nothing ran: the name is no DNS label",
            ),
        ),
    ),
)


def parameters() -> Iterator[Any]:
    for case in CASES:
        for stack in case.stacks:
            marks = [] if stack in case.quick else [pytest.mark.slow]
            yield pytest.param(stack, case, id=f"{stack}: {case.name}", marks=marks)


@pytest.mark.parametrize(("stack", "case"), [*parameters()])
def test_up_waits_for_the_training_and_ends_as_it_does(stack: str, case: Case) -> None:
    with Rehearsal(stack) as rehearsal:
        for image, up in zip(IMAGES, case.ups, strict=False):
            rehearsal.configure({"imageUri": image, "waitForTraining": "true"})
            rehearsal.cloud.outcome = up.outcome
            if up.message:
                with pytest.raises(RehearsalError, match=up.message.replace("STACK", stack)):
                    rehearsal.up()
            else:
                rehearsal.up()
                assert rehearsal.preview().changed == 0
        rehearsal.remove()
        assert rehearsal.cloud.items == []


def test_a_job_that_failed_stays_and_fails_the_next_up_too_which_runs_nothing() -> None:
    with Rehearsal("a4-accelerate", {"imageUri": plans.IMAGE, "waitForTraining": "true"}) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        for _ in range(2):
            with pytest.raises(RehearsalError, match=r"Job .* failed"):
                rehearsal.up()
            (job,) = (job for job in rehearsal.cloud.of_type(JOB) if not prepares(job.inputs))
            assert plans.changes(rehearsal.preview()) == {job.name: "update"}
        rehearsal.remove()
        assert rehearsal.cloud.items == []


@pytest.mark.parametrize("stack", ON_GKE)
def test_up_does_not_wait_for_the_training_without_the_setting(stack: str) -> None:
    training = plans.training(planned(stack))
    annotations = training.inputs["metadata"].get("annotations") or {}
    # Pulumi waits for every Job without this annotation. It waits for no custom object without the other one.
    if training.type == JOB:
        assert annotations["pulumi.com/skipAwait"] == "true"
    assert "pulumi.com/waitFor" not in annotations
