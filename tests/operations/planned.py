"""Plans that the tests of the operator's commands share: each takes seconds."""

from functools import cache

from operations import plan
from operations.plan import StackPlan

PROJECT = "my-project"
RESERVATION = "my-reservation"


@cache
def planned(stack: str, *settings: str) -> StackPlan:
    """The plan of a stack in `PROJECT`, with these settings over those of its file."""
    return plan.load(stack, settings_of(stack, *settings))


def settings_of(stack: str, *settings: str) -> list[str]:
    """What a stack's file leaves to its owner, and `settings`."""
    chosen = [f"gcp:project={PROJECT}", *settings]
    reserved = not any(each.startswith("capacity.") for each in settings)
    return (
        [*chosen, f"capacity.reservation={RESERVATION}"] if stack.startswith("a4-") and reserved else chosen
    )
