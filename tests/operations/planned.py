"""Plans that the tests of the operator's commands share: each takes seconds."""

from contextlib import AbstractContextManager
from functools import cache
from unittest.mock import patch

from engine.configuration import configuration
from engine.project import parse_override
from operations.plan import StackPlan, load
from tests import plans
from tests.once import once

PROJECT = "my-project"
IMAGE = f"us-docker.pkg.dev/team-images/llm/finetune@sha256:{'a' * 64}"


@cache
def planned(stack: str, *settings: str) -> StackPlan:
    """The plan of a stack in `PROJECT`, with these settings over those of its file."""
    overrides = settings_of(stack, *settings)
    return once(("plan of a command", stack, overrides), lambda: _load(stack, overrides))


def _load(stack: str, overrides: list[str]) -> StackPlan:
    """As `load`, without a process for each rehearsal, which takes longer to start than to plan."""
    with patch("operations.plan.rehearsed", _rehearsed):
        return load(stack, overrides)


def _rehearsed(stack: str, *options: str) -> str:
    overrides = dict(parse_override(option.removeprefix("--set=")) for option in options)
    return plans.previewed(stack, overrides).report


def settings_of(stack: str, *settings: str) -> list[str]:
    """The settings that `planned` gives, and what stands in for others that only the stack's user has."""
    overrides = [f"gcp:project={PROJECT}", *settings]
    values = configuration(stack, dict(parse_override(text) for text in overrides))
    return [*overrides, *(f"{key}={values.plain[key]}" for key in values.fake if key in values.plain)]


def planned_once(*settings: str) -> AbstractContextManager[object]:
    """A command that plans a stack gets the plan that `planned` has of it."""
    return patch("operations.plan.load", lambda stack, *_, **__: planned(stack, *settings))
