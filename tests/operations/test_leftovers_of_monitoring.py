"""A channel, policy or dashboard that an interrupted `up` left is found, though Google invents its id."""

from typing import Any

import pytest

from operations.google.clients import Clients
from operations.state import State
from tests.operations.past_stack import PastStack
from tests.operations.project import PROJECT, Project
from tests.operations.test_leftovers import LABELS, footprint, left_of

LEFT: dict[str, dict[str, Any]] = {
    "notificationChannels": {"userLabels": LABELS, "labels": {"email_address": "a@example.com"}},
    "alertPolicies": {"userLabels": LABELS},
    "dashboards": {"labels": LABELS},
}


@pytest.mark.parametrize("collection", LEFT)
@pytest.mark.parametrize("is_up", [True, False])
def test_it_is_found_by_its_labels(
    collection: str, is_up: bool, clients: Clients, neutral: PastStack, project: Project
) -> None:
    name = f"projects/{PROJECT}/{collection}/4711"
    project.add(collection, name, displayName="neutral", **LEFT[collection])
    states = (neutral.alive, [neutral.alive]) if is_up else (State(), [neutral.alive])
    leftovers = left_of(clients, footprint(neutral.plan, *states, []))
    (leftover,) = [item for item in leftovers if item.candidate.name == "4711"]
    assert not leftover.belonging.sure
    assert "delete 4711" in leftover.command
