"""The life of every stack, for tests that look and change nothing."""

import pytest

from engine.plan import Plan
from tests import plans
from tests.once import once
from tests.stacks.invariants.life import Life, life_of


@pytest.fixture(scope="session", params=plans.STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def life(stack: str) -> Life:
    return once(("life", stack), lambda: life_of(stack))


@pytest.fixture(scope="session")
def plan(life: Life) -> Plan:
    return life.plan


@pytest.fixture(scope="session")
def standing(life: Life) -> Plan:
    return life.standing
