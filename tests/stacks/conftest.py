"""A module's stack, planned with any settings and made once, for tests that look and change nothing.

`STACK` of the test module names the stack.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from components.storage.training_code import package_files
from engine.plan import Plan
from rehearsal.session import Rehearsal
from tests import plans

_GIVEN = {"imageUri": plans.IMAGE}


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> str:
    return request.module.STACK


@pytest.fixture
def little_code(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """Stacks ship a file of each package, with `--slow` all: on Cloud Run each of 88 is a resource.

    For tests that look at other resources, in rehearsals of their own: other tests share plans with all code.
    """

    def first_files(*packages: Path) -> dict[str, str]:
        return {path: text for package in packages for path, text in [*package_files(package).items()][:1]}

    def refuse(*_: object, **__: str) -> None:
        raise AssertionError("other tests share this plan, with all code")

    if not pytestconfig.getoption("--slow"):
        for shared in ("shipped", "standing", "planned_next"):
            monkeypatch.setattr(plans, shared, refuse)
        monkeypatch.setattr("components.storage.training_code.package_files", first_files)


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
