"""An image that is built in a private pool of a company's own."""

import pytest

from cloud.services.cloudbuild import BUILD, CPU_QUOTA
from operations.checks.quotas import needs_of
from operations.plan import StackPlan
from tests import plans
from tests.stacks.configuration import problems

POOL = "projects/my-builders/locations/europe-west1/workerPools/closed"
STACK = plans.one_with("buildPool")
OWN_IMAGE: dict[str, str | None] = {"llm-stacks:imageUri": None}


def test_the_image_is_built_in_the_pool_and_its_region_and_kept_in_the_stack_s() -> None:
    plan = plans.shipped(STACK, buildPool=POOL)
    build = plans.only(plan, BUILD.type).inputs
    assert (build["pool"], build["location"]) == (POOL, "europe-west1")
    (repository,) = plans.of_type(plan, ":Repository")
    assert repository.inputs["location"] == plans.region_of(STACK)


@pytest.mark.parametrize(("settings", "counted"), [({}, True), ({"buildPool": POOL}, False)])
def test_a_pool_needs_no_quota_of_google_s_build_machines(settings: dict[str, str], counted: bool) -> None:
    resources = tuple(plans.shipped(STACK, **settings).resources)
    plan = StackPlan(
        stack=STACK, project="my-project", region="us-central1", configuration={}, resources=resources
    )
    needs = needs_of(plan)
    assert any(quota.metric == CPU_QUOTA for quota in needs) == counted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"llm-stacks:buildPool": "closed"},
            "buildPool: 'closed' is not a private pool, projects/PROJECT/locations/REGION/workerPools/NAME",
        ),
        (
            {"llm-stacks:buildPool": POOL, "llm-stacks:buildRegion": "us-central1"},
            "buildPool: the pool's region is that of the build; remove buildRegion",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_the_remedy(
    changes: dict[str, str | None], message: str
) -> None:
    assert problems({**OWN_IMAGE, **changes}) == [message]


def test_a_pool_beside_an_image_is_refused() -> None:
    assert problems({"llm-stacks:buildPool": POOL}) == [
        "buildPool: with imageUri nothing is built; remove one of the two"
    ]
