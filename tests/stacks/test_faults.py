"""An `up` that fails anywhere is mended by the next one, and destroy still leaves nothing."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import inventory, plans


def created(stack: str) -> set[str]:
    """Names of what an `up` creates and a provider can fail at."""
    return {
        row["name"]
        for row in inventory.written(stack)
        if not row["type"].startswith(("llm-stacks:components:", "pulumi:"))
    }


@pytest.mark.parametrize("stack", plans.STACKS)
def test_whatever_fails_to_be_created_is_made_good_by_the_next_up(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The creation of every single resource fails once, each `up` meeting all that it comes to."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")
    with Rehearsal(stack) as rehearsal:
        rehearsal.faults.add(created(stack))
        while before := rehearsal.faults.waiting:
            with pytest.raises(RehearsalError) as failed:
                rehearsal.up()
            struck = before - rehearsal.faults.waiting
            assert struck, str(failed.value)
            assert all(f"creation of {name} fail" in str(failed.value) for name in struck)
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ("a4-ray", "a4-ray-build"),
        ("a4-ray", "a4-ray-cluster"),
        ("cloudrun-vllm", "cloudrun-vllm-execution"),
        ("cloudrun-vllm", "cloudrun-vllm-service"),
        ("tpu-maxtext", "tpu-maxtext-slice-pool"),
    ],
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
