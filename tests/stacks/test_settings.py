"""What the configuration may log, and what becomes of it."""

import json
from typing import Any

import pulumi
import pytest

from components.cluster.capacity import Capacity, CapacityType, Reservation
from stacks.platform import StackContext
from stacks.settings.reader import SettingsError
from tests.stacks.configuration import load, problems

CAPACITY = "llm-stacks:capacity.type"


def test_a_key_set_as_a_path_is_read_like_a_flat_one() -> None:
    nested = json.dumps({"type": "reservation", "reservation": "other"})
    wanted = Capacity(type=CapacityType.RESERVATION, reservation=Reservation(name="other"))
    assert load({"llm-stacks:capacity": nested}).capacity.capacity == wanted


@pytest.mark.parametrize("hours", ["0", "169", "1.5", "null"])
def test_a_run_is_limited_to_whole_hours_of_a_week(hours: str) -> None:
    assert load({"llm-stacks:maxRunHours": "4"}).training.max_run_hours == 4
    assert load({}).training.max_run_hours is None
    assert problems({"llm-stacks:maxRunHours": hours}) == [
        f"maxRunHours: {hours!r} is not a whole number from 1 to 168"
    ]


def test_a_value_of_any_length_is_told_in_a_few_lines_and_soon() -> None:
    """To look for a word that is near would take the square of a million."""
    long = "x" * 1_000_000
    for key in ("gcp:region", CAPACITY, f"llm-stacks:{long}"):
        assert len(message_about({key: long})) < 2500
    assert message_about({"gcp:region": long}).endswith("is not a region such as us-central1 (not a zone)")


def test_a_value_that_is_nested_without_end_is_told() -> None:
    for deep in ("[" * 100_000, '{"a":' * 100_000):
        (message,) = problems({CAPACITY: deep})
        assert message.startswith("capacity.type: ")


def test_a_key_cannot_write_to_the_terminal() -> None:
    (_, line) = message_about({"llm-stacks:\x1b[2Jnodes": "2"}).splitlines()
    assert line.isprintable() and line.startswith("  \\x1b[2Jnodes: unknown key")


def message_about(changes: dict[str, str | None]) -> str:
    with pytest.raises(SettingsError) as error:
        load(changes)
    return str(error.value)


class AnyResource(pulumi.runtime.Mocks):
    """Takes every resource, so that a registration leaves no error for a later test of the process."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        return args.name, {}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"{args.token} was called while resources were named")


def test_a_stack_name_becomes_a_label_that_google_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = load({})
    pulumi.runtime.set_mocks(AnyResource(), project="llm-stacks", stack="mine")
    monkeypatch.setattr(pulumi, "get_stack", lambda: "Team.A4_ray")
    assert StackContext(read.project).labels["stack"] == "team-a4_ray"
