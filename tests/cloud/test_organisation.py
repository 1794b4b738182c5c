"""What policies of an organisation refuse, and the settings with which every stack complies."""

import re

import pytest

from cloud.organisation import CONSTRAINTS, Constraint
from components.base.remedies import what_to_do
from engine.plan import Plan
from tests import plans
from tests.stacks.test_closed_shape import settings

# Settings besides those of the closed shape, whose image is built in a pool.
WITHOUT_A_BUILD = {"imageUri": plans.IMAGE, "bucket": "gs://bucket-of-the-team"}
ON_BUILDS = ("cloudbuild.allowedWorkerPools", "storage.softDeletePolicySeconds")


def refused(constraint: Constraint, plan: Plan) -> list[str]:
    return [item.name for item in plan.resources if constraint.refuses(item.type, item.inputs)]


def with_settings(stack: str, values: dict[str, str]) -> Plan:
    return plans.shipped(stack, **{key.replace(".", "_"): value for key, value in values.items()})


@pytest.mark.parametrize("stack", plans.mostly_slow(plans.STACKS, quick=["cloudrun-vllm", "a4-accelerate"]))
def test_with_the_settings_that_they_name_a_stack_complies_with_all(stack: str) -> None:
    closed = with_settings(stack, settings(stack))
    without_a_build = with_settings(stack, plans.known_settings(stack, **WITHOUT_A_BUILD))
    for name, constraint in CONSTRAINTS.items():
        if name != "storage.softDeletePolicySeconds" and not constraint.request:
            assert refused(constraint, closed) == [], name
        if name in ON_BUILDS:
            assert refused(constraint, without_a_build) == [], name


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
def test_a_remedy_names_settings_of_those_stacks(constraint: Constraint) -> None:
    known = {key.partition(".")[0] for stack in plans.STACKS for key in settings(stack)}
    names = set(re.findall(r"`(\w+)`", constraint.remedy)) - {"internal", "project"}
    assert names <= known | WITHOUT_A_BUILD.keys()


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
def test_a_constraint_with_a_remedy_refuses_some_stack_and_one_without_refuses_none(
    constraint: Constraint,
) -> None:
    hit = [stack for stack in plans.STACKS if refused(constraint, plans.shipped(stack))]
    assert bool(hit) == bool(constraint.cure), hit


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
def test_each_constraint_refuses_something(constraint: Constraint) -> None:
    """A rule that refuses nothing at all would say of every stack that it complies."""
    assert refused(constraint, plans.shipped("dev")) or constraint.refuses(
        *BAD.get(constraint.name, (CLUSTER, {}))
    )


@pytest.mark.parametrize("name", [name for name, it in CONSTRAINTS.items() if it.cure])
def test_the_error_of_each_names_its_cure(name: str) -> None:
    advice = what_to_do(CLUSTER, CONSTRAINTS[name].message("p"), "mine", "pulumi up")
    assert CONSTRAINTS[name].cure in advice


def test_where_no_setting_helps_the_error_says_what_to_ask_for() -> None:
    answer = (
        "googleapi: Error 403: Request is disallowed by organization's constraints/gcp.restrictServiceUsage "
        "constraint for projects/7 attempting to use service container.googleapis.com., forbidden"
    )
    advice = what_to_do(CLUSTER, answer, "mine", "pulumi up")
    assert "ask its administrator for the APIs of the stack, which docs/in-a-company.md lists" in advice


CLUSTER = "gcp:container/cluster:Cluster"
BAD = {
    "container.managed.enableControlPlaneDNSOnlyAccess": (
        CLUSTER,
        {"controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": True}}},
    ),
    "container.managed.disableRBACSystemBindings": (CLUSTER, {"rbacBindingConfig": {}}),
    "compute.requireShieldedVm": ("gcp:container/nodePool:NodePool", {"nodeConfig": {}}),
    "compute.vmExternalIpAccess": (CLUSTER, {"enableAutopilot": True}),
    "gcp.resourceLocations": ("gcp:secretmanager/secret:Secret", {"replication": {"auto": {}}}),
    "iam.disableServiceAccountKeyCreation": ("gcp:serviceaccount/key:Key", {}),
    "run.allowedVPCEgress": ("gcp:cloudrunv2/job:Job", {"template": {"template": {}}}),
    "storage.publicAccessPrevention": ("gcp:storage/bucket:Bucket", {}),
    "storage.uniformBucketLevelAccess": ("gcp:storage/bucket:Bucket", {}),
}
