"""Service accounts that exist before the stack: the setting `accounts`."""

import pytest

import stacks
from cloud.services.serviceaccount import ACCOUNT
from engine.plan import Plan
from stacks.settings.accounts import purposes_of
from tests import plans
from tests.stacks.configuration import CLOUDRUN, problems

PROJECT_ROLE = "gcp:projects/iAMMember:IAMMember"
# Roles on a cluster and on Cloud Run.
STACKS = plans.mostly_slow(plans.STACKS, quick=["cloudrun-vllm", "tpu-maxtext"])


def email(purpose: str) -> str:
    return f"llm-{purpose}@rehearsal-project.iam.gserviceaccount.com"


def settings(stack: str) -> dict[str, str]:
    """An account for everything that runs as one. The stack builds its image."""
    purposes = purposes_of(stacks.scenario_modules()[stack].Settings)
    return {f"accounts.{purpose}": email(purpose) for purpose in purposes}


def planned(stack: str) -> Plan:
    return plans.shipped(stack, **{key.replace(".", "_"): value for key, value in settings(stack).items()})


@pytest.mark.parametrize("stack", STACKS)
def test_the_stack_makes_no_account_and_grants_no_role_in_the_project(stack: str) -> None:
    plan = planned(stack)
    own = [resource.name for resource in plan.resources if resource.type in (ACCOUNT.type, PROJECT_ROLE)]
    assert own == []


@pytest.mark.parametrize("stack", STACKS)
def test_its_accounts_have_the_same_roles_on_the_stack_s_own_things(stack: str) -> None:
    """Such as pulling an image, or pushing it. Each role is still for one account."""
    own = {resource.name: role for resource, role in plans.roles(plans.shipped(stack))}
    theirs = {resource.name: role for resource, role in plans.roles(planned(stack))}
    in_project = {resource.name for resource in plans.of_type(plans.shipped(stack), PROJECT_ROLE)}
    assert theirs == {name: role for name, role in own.items() if name not in in_project}


@pytest.mark.parametrize("stack", plans.stacks_with("clusterName"))
def test_nodes_run_as_the_account(stack: str) -> None:
    text = plans.text(planned(stack))
    assert email("nodes") in text
    cluster = plans.only(planned(stack), "container/cluster:Cluster").inputs
    assert email("nodes") in str(cluster)
    for pool in plans.of_type(planned(stack), "container/nodePool:NodePool"):
        assert pool.inputs["nodeConfig"]["serviceAccount"] == email("nodes")


def test_build_job_and_service_run_as_theirs() -> None:
    plan = planned("cloudrun-vllm")
    (job,) = plans.of_type(plan, "cloudrunv2/job:Job")
    (service,) = plans.of_type(plan, "cloudrunv2/service:Service")
    (build,) = [resource for resource in plan.resources if resource.name.endswith("-build")]
    assert job.inputs["template"]["template"]["serviceAccount"] == email("finetune")
    assert service.inputs["template"]["serviceAccount"] == email("serve")
    path = f"projects/rehearsal-project/serviceAccounts/{email('build')}"
    assert build.inputs["serviceAccount"] == path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"accounts.serve": email("serve")},
            "accounts.serve: unknown key; this scenario has accounts.build, accounts.nodes",
        ),
        (
            {"accounts.nodes": "llm-nodes"},
            "accounts.nodes: 'llm-nodes' is not an address such as",
        ),
        (
            {**CLOUDRUN, "llm-stacks:accounts.nodes": email("nodes")},
            "accounts.nodes: unknown key; this scenario has accounts.build, accounts.finetune",
        ),
    ],
)
def test_wrong_accounts_are_one_message(values: dict[str, str | None], message: str) -> None:
    keys = {key if ":" in key else f"llm-stacks:{key}": value for key, value in values.items()}
    (problem,) = problems(keys)
    assert problem.startswith(message)
