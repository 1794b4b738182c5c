"""What fails anywhere, in any way, is mended by the next `up` or `destroy`, and nothing is left."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.faults import KINDS
from rehearsal.session import Rehearsal
from tests import inventory, plans

REFUSALS = [kind for kind in KINDS if kind != "orphan"]


def created(stack: str) -> dict[str, str]:
    """Names of what an `up` creates and a provider can fail at, and the type of each."""
    return {
        row["name"]: row["type"]
        for row in inventory.written(stack)
        if not row["type"].startswith(("llm-stacks:components:", "pulumi:"))
    }


def kinds(stack: str) -> dict[str, str]:
    """A kind of fault for each of these, another one for the next of a type and for the next stack."""
    turns: dict[str, Iterator[int]] = defaultdict(lambda: count(plans.STACKS.index(stack)))
    return {name: REFUSALS[next(turns[type_]) % len(REFUSALS)] for name, type_ in created(stack).items()}


def first_of_their_type(stack: str) -> list[str]:
    """Names of those of types that no stack before this one has."""
    before = {each for other in plans.STACKS[: plans.STACKS.index(stack)] for each in created(other).values()}
    return [name for name, type_ in created(stack).items() if type_ not in before]


@pytest.mark.parametrize("stack", plans.STACKS)
def test_whatever_fails_is_made_good_by_the_next_up_or_destroy(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every single creation, then every deletion fails once, each run meeting all that it comes to."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")
    with Rehearsal(stack) as rehearsal:
        for name, kind in kinds(stack).items():
            rehearsal.faults.add([name], kind=kind)
        while before := rehearsal.faults.waiting:
            with pytest.raises(RehearsalError) as failed:
                rehearsal.up()
            struck = before - rehearsal.faults.waiting
            assert struck, str(failed.value)
            for name in struck:
                said = KINDS[kinds(stack)[name]].format(operation="creation", name=name)
                assert re.search(rf"{name}: .*{re.escape(said)}", str(failed.value))
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        for name, kind in kinds(stack).items():
            rehearsal.faults.add([name], kind=kind, at="deletion")
        while True:
            before = rehearsal.faults.waiting
            try:
                rehearsal.destroy()
                break  # what goes with its cluster is not asked about, and waits for ever
            except RehearsalError as failed:
                assert before - rehearsal.faults.waiting, str(failed)
        assert rehearsal.cloud.items == []


@pytest.mark.parametrize("stack", [*filter(first_of_their_type, plans.STACKS)])
def test_what_is_made_without_an_answer_is_met_by_the_next_up_or_is_left_and_named(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a fixed name it is in the way, and the message says so; of an automatic one nobody misses it."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")

    def delete_what_is_named(failed: RehearsalError) -> int:
        """What a person does about it."""
        patterns = ("{0} {1!r} already exists", "is already being used by {1}")
        texts = str(failed).splitlines()
        met = [
            item
            for item in rehearsal.cloud.items
            if any(pattern.format(item.type, item.id) in text for pattern in patterns for text in texts)
        ]
        for item in met:
            rehearsal.cloud.remove(item)
        return len(met)

    with Rehearsal(stack) as rehearsal:
        rehearsal.faults.add(first_of_their_type(stack), kind="orphan")
        for operation in (rehearsal.up, rehearsal.destroy):
            while True:
                before = rehearsal.faults.waiting
                try:
                    operation()
                    break
                except RehearsalError as failed:
                    assert delete_what_is_named(failed) or before - rehearsal.faults.waiting, str(failed)
            assert rehearsal.preview().changed == 0 or operation == rehearsal.destroy
        automatic = re.compile(r"-[0-9a-f]{7,8}$")
        assert not [item.id for item in rehearsal.cloud.items if not automatic.search(item.id.split("@")[0])]


@pytest.mark.parametrize(
    ("stack", "name"), [("a4-ray", "a4-ray-cluster"), ("cloudrun-vllm", "cloudrun-vllm-execution")]
)
def test_destroy_cleans_up_after_a_failed_up(stack: str, name: str) -> None:
    """After a job that failed: test_runs.py."""
    with Rehearsal(stack) as rehearsal:
        rehearsal.faults.add([name])
        with pytest.raises(RehearsalError, match=name):
            rehearsal.up()
        assert not rehearsal.faults.waiting
        rehearsal.destroy()
        assert rehearsal.cloud.items == []
