"""What policies of an organisation refuse, and the settings with which every stack complies."""

import pytest

from cloud.organisation import CONSTRAINTS, Constraint
from engine.plan import Plan
from tests import plans
from tests.stacks.test_closed_shape import settings

# The settings that a remedy names and the closed shape has not.
MORE = {"imageUri": plans.IMAGE, "bucket": "gs://bucket-of-the-team"}


def refused(constraint: Constraint, plan: Plan) -> list[str]:
    return [item.name for item in plan.resources if constraint.refuses(item.type, item.inputs)]


def named(stack: str, constraint: Constraint) -> dict[str, str]:
    """The settings that the remedy names, with the values of the closed shape."""
    known = {**settings(stack), **plans.known_settings(stack, **MORE)}
    keys = {key for key in known if f"`{key.partition('.')[0]}`" in constraint.remedy}
    if "subnet" in keys:
        keys |= known.keys() & {"network", "podsRange", "servicesRange"}
    if "buildPool" in keys:
        keys -= {"imageUri"}
    return {key: known[key] for key in keys}


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
@pytest.mark.parametrize("stack", plans.STACKS)
def test_with_the_settings_that_it_names_a_stack_complies(stack: str, constraint: Constraint) -> None:
    own = {key.replace(".", "_"): value for key, value in named(stack, constraint).items()}
    assert refused(constraint, plans.shipped(stack, **own)) == []


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
def test_a_constraint_with_a_remedy_refuses_some_stack_and_one_without_refuses_none(
    constraint: Constraint,
) -> None:
    hit = [stack for stack in plans.STACKS if refused(constraint, plans.shipped(stack))]
    assert bool(hit) == bool(constraint.remedy), hit


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=list(CONSTRAINTS))
def test_each_constraint_refuses_something(constraint: Constraint) -> None:
    """A rule that refuses nothing at all would say of every stack that it complies."""
    assert refused(constraint, plans.shipped("dev")) or constraint.refuses(*BAD[constraint.name])


BAD = {
    "compute.requireShieldedVm": ("gcp:container/nodePool:NodePool", {"nodeConfig": {}}),
    "compute.vmExternalIpAccess": ("gcp:container/cluster:Cluster", {"enableAutopilot": True}),
    "gcp.resourceLocations": ("gcp:secretmanager/secret:Secret", {"replication": {"auto": {}}}),
    "iam.disableServiceAccountKeyCreation": ("gcp:serviceaccount/key:Key", {}),
    "run.allowedVPCEgress": ("gcp:cloudrunv2/job:Job", {"template": {"template": {}}}),
    "storage.publicAccessPrevention": ("gcp:storage/bucket:Bucket", {}),
    "storage.uniformBucketLevelAccess": ("gcp:storage/bucket:Bucket", {}),
}
