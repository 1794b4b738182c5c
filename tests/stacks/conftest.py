"""A module's stack, planned with any settings and made once, for tests that look and change nothing.

`STACK` of the test module names the stack.
"""

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from engine.plan import Plan
from rehearsal.session import Rehearsal
from tests import plans

_GIVEN = {"imageUri": plans.IMAGE}


@pytest.fixture(scope="module")
def plan_with(request: pytest.FixtureRequest) -> Iterator[Callable[..., Plan]]:
    """What would be made with settings over the stack file's; `capacity_type` is `capacity.type`."""
    with Rehearsal(request.module.STACK) as rehearsal:

        @cache
        def plan(**settings: str) -> Plan:
            rehearsal.configure(plans.keys(settings))
            return rehearsal.preview()

        yield plan


@pytest.fixture(scope="module")
def plan(plan_with: Callable[..., Plan]) -> Plan:
    """The stack file's plan, with an image that was given to it."""
    return plan_with(**_GIVEN)


@pytest.fixture(scope="module")
def standing(request: pytest.FixtureRequest) -> Iterator[Rehearsal]:
    """The stack when it is up, with an image that was given to it."""
    with Rehearsal(request.module.STACK, _GIVEN) as rehearsal:
        rehearsal.up()
        yield rehearsal


@pytest.fixture
def next_plan(standing: Rehearsal) -> Callable[..., Plan]:
    """What the next `up` of the standing stack would do, with other settings or as it is."""

    def plan(**settings: str) -> Plan:
        standing.configure({**_GIVEN, **plans.keys(settings)})
        try:
            return standing.preview()
        finally:
            standing.configure(_GIVEN)

    return plan
