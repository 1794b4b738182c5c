"""How the l4-kueue stack changes, what waits for what, and its end, on the real engine."""

from collections.abc import Callable

import pytest

from components import kueue
from engine.plan import Plan
from rehearsal import Rehearsal, RehearsalError
from rehearsal.fake_cloud import NODE_POOL, Item
from tests import plans

STACK = "l4-kueue"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plans.shipped(STACK)


# What runs again, and what does not


def test_scaling_serving_touches_the_deployment_alone(next_plan: Callable[..., Plan]) -> None:
    assert plans.changes(next_plan(servingReplicas="2")) == {"l4-kueue-serving": "update"}


def test_more_nodes_are_more_quota_and_nothing_is_made_anew(next_plan: Callable[..., Plan]) -> None:
    assert plans.changes(next_plan(nodes="4")) == {
        "l4-kueue-l4-pool": "update",
        "l4-kueue-cluster-queue": "update",
    }


def test_another_capacity_gives_the_gpus_back_before_it_asks_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Rehearsal(STACK) as rehearsal:
        rehearsal.up()
        there: list[int] = []
        add = rehearsal.cloud.add

        def watched(item: Item) -> None:
            add(item)
            there.append(len(list(rehearsal.cloud.of_type(NODE_POOL))))

        monkeypatch.setattr(rehearsal.cloud, "add", watched)
        rehearsal.configure({"capacity.type": "spot"})
        rehearsal.up()
        assert there == [2]
        assert rehearsal.preview().changed == 0


# Order


def test_a_webhook_that_answers_late_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kueue, "_BACKOFF_S", 0.0)
    with Rehearsal(STACK) as rehearsal:
        rehearsal.cloud.silent_webhook = 5
        rehearsal.up()
        assert rehearsal.cloud.silent_webhook == 0
        assert rehearsal.preview().changed == 0


def test_a_webhook_that_never_answers_ends_up_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kueue, "_BACKOFF_S", 0.0)
    with Rehearsal(STACK) as rehearsal:
        rehearsal.cloud.silent_webhook = 1000
        with pytest.raises(RehearsalError, match="failed calling webhook"):
            rehearsal.up()
        assert rehearsal.cloud.silent_webhook > 900
        rehearsal.cloud.silent_webhook = 0
        rehearsal.up()
        assert rehearsal.preview().changed == 0


# The end


def test_everything_of_an_autopilot_cluster_is_destroyed_too() -> None:
    with Rehearsal(STACK, {"forceDestroy": "true", "clusterMode": "autopilot"}) as rehearsal:
        rehearsal.up()
        rehearsal.destroy()
        assert rehearsal.cloud.items == []
