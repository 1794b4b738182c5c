"""What the settings of l4-kueue decide about its machines."""

import pytest

from components.cluster.capacity import CapacityType
from tests.stacks.configuration import L4_KUEUE, load, problems

CAPACITY = "llm-stacks:capacity.type"


def test_the_tutorial_s_machines_are_the_defaults() -> None:
    l4 = load(L4_KUEUE)
    assert (l4.nodes.machine.name, l4.nodes.nodes, l4.nodes.minimum) == ("g2-standard-24", 3, 3)
    assert l4.nodes.zones_in(l4.project.region) == ("us-central1-a",)
    assert l4.nodes.capacity_types == (CapacityType.ON_DEMAND,)


@pytest.mark.parametrize(
    ("changes", "zones"),
    [
        ({"llm-stacks:zones": "us-central1-c"}, ("us-central1-c",)),
        ({"gcp:region": "europe-west1"}, ("europe-west1-b",)),
        ({"llm-stacks:zones": '["us-central1-a", "us-central1-a"]'}, ("us-central1-a",)),
        (
            {"llm-stacks:zones": '["us-central1-a", "us-central1-b"]', "llm-stacks:minNodes": "1"},
            ("us-central1-a", "us-central1-b"),
        ),
    ],
)
def test_nodes_are_where_there_is_l4(changes: dict, zones: tuple) -> None:
    read = load({**L4_KUEUE, **changes})
    assert read.nodes.zones_in(read.project.region) == zones


def test_flex_start_keeps_no_machine_unless_told_to() -> None:
    assert load({**L4_KUEUE, CAPACITY: "flexStart"}).nodes.minimum == 0


def test_one_large_machine_can_hold_the_fine_tune() -> None:
    read = load({**L4_KUEUE, "llm-stacks:nodes": "1", "llm-stacks:machineType": "g2-standard-48"})
    assert read.nodes.machine.count == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"llm-stacks:clusterMode": "autopilot", "llm-stacks:machineType": "g2-standard-24"},
            "machineType: Autopilot chooses machines by itself; remove it with `pulumi config rm "
            "machineType`",
        ),
        (
            {"llm-stacks:serveNotGood": "true"},
            "serveNotGood: serve: hub serves no run; set serve to run, or remove it",
        ),
        (
            {"llm-stacks:serveNotGood": "false"},
            "serveNotGood: serve: hub serves no run; set serve to run, or remove it",
        ),
    ],
)
def test_a_key_that_would_do_nothing_is_refused_with_its_default_value_too(
    changes: dict[str, str], message: str
) -> None:
    assert problems({**L4_KUEUE, **changes}) == [message]
