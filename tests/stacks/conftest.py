"""A module's stack, planned with any settings and made once, for tests that look and change nothing.

`STACK` of the test module names the stack.
"""

from collections.abc import Callable
from functools import partial

import pytest

from engine.plan import Plan
from rehearsal.session import Rehearsal
from tests import plans

_GIVEN = {"imageUri": plans.IMAGE}


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> str:
    return request.module.STACK


@pytest.fixture(scope="module")
def plan_with(stack: str) -> Callable[..., Plan]:
    """Plans the stack with settings over those of its file. `capacity_type` is `capacity.type`."""
    return partial(plans.shipped, stack)


@pytest.fixture(scope="module")
def plan(plan_with: Callable[..., Plan]) -> Plan:
    """The stack file's plan, with an image of the settings."""
    return plan_with(**_GIVEN)


@pytest.fixture(scope="module")
def standing(stack: str) -> Rehearsal:
    """The stack when it is up, with an image of the settings."""
    return plans.standing(stack)


@pytest.fixture
def next_plan(stack: str) -> Callable[..., Plan]:
    """What the next `up` of the standing stack would do, with other settings or as it is."""
    return partial(plans.planned_next, stack)
