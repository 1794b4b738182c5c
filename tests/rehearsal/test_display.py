"""What a person sees while the engine works."""

import re

import pytest

from rehearsal.display import OperationLog
from rehearsal.session import Rehearsal
from tests.neutral_stacks import NEUTRAL, neutral_stacks


@pytest.fixture(scope="module")
def operations() -> dict[str, list[str]]:
    """What is printed of each operation on a stack."""
    lines: list[str] = []
    printed = {}
    events = OperationLog(lines.append)
    with neutral_stacks(), Rehearsal(NEUTRAL, {"forceDestroy": "true"}, events=events) as rehearsal:
        for operation in (rehearsal.up, rehearsal.refresh, rehearsal.destroy):
            operation()
            printed[operation.__name__] = lines[:]
            lines.clear()
        # All but the stack, its components and the providers that nobody has declared.
        assert rehearsal.cloud.items == []
    return printed


def test_a_resource_that_is_made_has_one_line(operations: dict[str, list[str]]) -> None:
    created = [line.split() for line in operations["up"] if line.startswith(" + ")]
    names = [name for _, name, _ in created]
    assert len(names) == len(set(names)) > 35
    assert ["+", "neutral-bucket", "gcp:storage:Bucket"] in created
    assert NEUTRAL not in names and "default" not in " ".join(names)


def test_refusals_of_the_rehearsal_s_own_are_called_that(operations: dict[str, list[str]]) -> None:
    text = "\n".join(operations["up"])
    assert "warning" not in text and "hook" not in text
    assert "neutral-cluster: refused on purpose, its Google API was enabled a moment ago; tried again" in text
    refusals = [line for line in operations["up"] if "refused" in line]
    assert all("refused on purpose, " in line for line in refusals)
    assert len(refusals) == len(set(refusals)) > 4


def test_what_is_deleted_is_a_count(operations: dict[str, list[str]]) -> None:
    (count,) = operations["destroy"]
    assert re.fullmatch(r"\d+ deleted", count)


def test_an_operation_ends_with_what_it_has_changed(operations: dict[str, list[str]]) -> None:
    assert re.fullmatch(r"\d+ created", operations["up"][-1])
    assert operations["refresh"] == ["nothing changed"]
