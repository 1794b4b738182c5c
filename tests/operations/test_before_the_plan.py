"""What a command asks for before it computes a plan, which takes most of a minute."""

from collections.abc import Mapping
from typing import NoReturn

import pytest
from google.auth.exceptions import DefaultCredentialsError

from engine import configuration as engine_configuration
from engine.configuration import Configuration
from operations import plan
from operations.errors import OperationError
from tests import plans
from tests.neutral_stacks import NEUTRAL
from tests.operations.conftest import Command

NO_LOGIN = "there are no Application Default Credentials"


def fail(*_arguments: object, **_options: object) -> NoReturn:
    raise AssertionError("the plan is computed first")


def refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise DefaultCredentialsError(NO_LOGIN)


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operations.plan.rehearsed", fail)
    monkeypatch.setattr("operations.google.clients.find_credentials", refuse)


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack file that names a project."""

    def with_project(stack: str, overrides: Mapping[str, str]) -> Configuration:
        return engine_configuration.configuration(stack, {"gcp:project": "my-project", **overrides})

    monkeypatch.setattr("operations.plan.configuration", with_project)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["preflight", "leftovers", "first-run"])
def test_credentials_are_asked_for_before_the_plan(name: str, command: Command) -> None:
    ran = command(name, "--stack", NEUTRAL)
    assert (ran.status, ran.out) == (2, "")
    assert NO_LOGIN in ran.err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["preflight", "leftovers"])
def test_a_wrong_setting_is_told_before_the_plan(name: str, command: Command) -> None:
    ran = command(name, "--stack", NEUTRAL, "--set", "nonsense=1")
    assert ran.status == 2
    assert "nonsense: unknown key" in ran.err


class Reached(Exception):
    """The configuration is enough."""


def reach() -> NoReturn:
    raise Reached


def keys_of_the_owner(stack: str) -> list[str]:
    """Keys besides the project and secrets that only the owner knows, such as a reservation."""
    values = engine_configuration.configuration(stack, {})
    return [key for key in values.fake if key not in values.secret and not key.startswith("gcp:")]


OWNERS = [stack for stack in plans.STACKS if keys_of_the_owner(stack)]


@pytest.mark.parametrize("stack", OWNERS)
def test_names_need_no_key_that_only_the_owner_knows(stack: str) -> None:
    with pytest.raises(Reached):
        plan.load(stack, ["gcp:project=my-project"], is_sketch=True, first=reach)
    with pytest.raises(OperationError, match="has no value for"):
        plan.load(stack, ["gcp:project=my-project"], first=reach)


def test_a_project_is_never_made_up() -> None:
    with pytest.raises(OperationError, match="has no value for gcp:project"):
        plan.load(NEUTRAL, is_sketch=True, first=reach)
