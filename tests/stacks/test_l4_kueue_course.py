"""How the l4-kueue stack changes, on the real engine."""

from collections.abc import Callable

import pytest

from engine.plan import Plan
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans

STACK = "l4-kueue"


def test_scaling_serving_touches_the_deployment_alone(next_plan: Callable[..., Plan]) -> None:
    assert plans.changes(next_plan(servingReplicas="2")) == {"l4-kueue-serving": "update"}


def test_more_nodes_are_more_quota_and_nothing_is_made_anew(next_plan: Callable[..., Plan]) -> None:
    assert plans.changes(next_plan(nodes="4")) == {
        "l4-kueue-l4-pool": "update",
        "l4-kueue-cluster-queue": "update",
    }


def test_another_capacity_gives_the_gpus_back_before_it_asks_for_new_ones() -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        rehearsal.configure({"imageUri": plans.IMAGE, "capacity.type": "spot"})
        pool = [operation for operation, name in rehearsal.up().steps if name == "l4-kueue-l4-pool"]
    assert pool.index("delete-replaced") < pool.index("create-replacement")


def test_a_webhook_that_never_answers_ends_up_with_its_own_words_and_a_late_one_is_asked_again() -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.cloud.silent_webhook = 1000
        with pytest.raises(RehearsalError, match="failed calling webhook"):
            rehearsal.up()
        assert rehearsal.cloud.silent_webhook > 900
        rehearsal.cloud.silent_webhook = 5
        rehearsal.up()
        assert rehearsal.cloud.silent_webhook == 0
        assert rehearsal.preview().changed == 0
