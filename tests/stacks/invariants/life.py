"""One life of a stack, on the real engine: from the first preview to the last destroy."""

import json
from dataclasses import dataclass

import pytest

from engine.plan import Plan
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans

TOKEN = "hf_planted_in_a_test"
KEY = "key_planted_in_a_test_of_forty_characters"


@dataclass(frozen=True, kw_only=True)
class Life:
    """Observations of one rehearsal of a stack, from the first preview to the last destroy.

    Args:
        plan: The first preview.
        standing: The stack after the first `up`.
        state: The engine's state at that time, as a text.
        outputs: The stack's outputs at that time.
        second_changes: Number of changes in a second `up`. test_faults.py looks at a second preview.
        survived: Whether all resources were still there after a rejected `destroy`. None if the stack has no
            protected resources.
        left: Names of the resources that the last `destroy` left.
    """

    plan: Plan
    standing: Plan
    state: str
    outputs: dict[str, str]
    second_changes: int
    survived: bool | None
    left: list[str]


def life_of(stack: str) -> Life:
    """Rehearses a stack with a bucket that is protected, and destroys it after that has been lifted."""
    settings = plans.known_settings(stack, hfToken=TOKEN, wandbKey=KEY, imageUri=plans.IMAGE)
    with Rehearsal(stack, settings) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        standing, state = plans.standing_plan(rehearsal), json.dumps(rehearsal.state())
        outputs = plans.outputs(rehearsal)
        second_changes = rehearsal.up().changed
        survived = None
        if any(resource.options.get("protect") for resource in plan.resources):
            before = sorted(item.key for item in rehearsal.cloud.items)
            with pytest.raises(RehearsalError, match="protected"):
                rehearsal.destroy()
            survived = sorted(item.key for item in rehearsal.cloud.items) == before
            rehearsal.release()
        rehearsal.destroy()
        left = [item.name for item in rehearsal.cloud.items]
    return Life(
        plan=plan,
        standing=standing,
        state=state,
        outputs=outputs,
        second_changes=second_changes,
        survived=survived,
        left=left,
    )
