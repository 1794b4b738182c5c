"""The servers of l4-kueue whose number the load chooses: what is declared, and what is refused."""

from typing import Any

import pytest

from engine.plan import Plan
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.configuration import L4_KUEUE, problems

STACK = "l4-kueue"


def serving(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, "l4-kueue-serving").inputs


def autoscaler(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":HorizontalPodAutoscaler").inputs


@pytest.mark.parametrize(("limits", "fewest"), [('{"min": 2, "max": 3}', 2), ('{"max": 3}', 1)])
def test_the_load_chooses_the_servers_by_what_vllm_measures(limits: str, fewest: int) -> None:
    plan = plans.planned_next(STACK, servingReplicas=limits)
    spec = autoscaler(plan)["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (fewest, 3)
    assert "replicas" not in serving(plan)["spec"]
    assert spec["scaleTargetRef"]["name"] == serving(plan)["metadata"]["name"]
    measured = plans.only(plan, ":AutoscalingMetric").inputs
    (entry,) = measured["spec"]["metrics"]
    (container,) = entry["pod"]["containers"]
    names = [f"{measured['metadata']['name']}|{metric['gauge']['name']}" for metric in container["metrics"]]
    assert [metric["pods"]["metric"]["name"] for metric in spec["metrics"]] == [
        f"autoscaling.gke.io|{name}" for name in names
    ]
    template = serving(plan)["spec"]["template"]
    assert entry["pod"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = [port["containerPort"] for port in template["spec"]["containers"][0]["ports"]]
    assert container["endpoint"]["port"] in ports


def test_only_a_cluster_whose_servers_the_load_chooses_is_on_the_rapid_channel() -> None:
    (fixed,), (by_load,) = (
        plans.clusters(plan)
        for plan in (plans.shipped(STACK), plans.planned_next(STACK, servingReplicas='{"max": 3}'))
    )
    assert (fixed.inputs["releaseChannel"]["channel"], fixed.inputs.get("podAutoscaling")) == (
        "REGULAR",
        None,
    )
    assert by_load.inputs["releaseChannel"]["channel"] == "RAPID"
    assert by_load.inputs["podAutoscaling"] == {"hpaProfile": "PERFORMANCE"}
    assert by_load.op == "update"


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        (
            '{"min": 1, "max": 4}',
            "servingReplicas.max: 4 servers need 8 GPUs, and the queue has 6; set it to 3 or less, or raise "
            "nodes",
        ),
        (
            '{"min": 3, "max": 2}',
            "servingReplicas.min: 3 is more than servingReplicas.max, 2; lower one or raise the other",
        ),
        (
            '{"min": 1}',
            "servingReplicas.min: there is no autoscaler; set servingReplicas.max too, or remove it",
        ),
        (
            '{"min": 2}',
            "servingReplicas.min: there is no autoscaler; set servingReplicas.max too, or remove it",
        ),
    ],
)
def test_limits_that_cannot_be_are_refused_with_the_remedy(replicas: str, message: str) -> None:
    assert problems({**L4_KUEUE, "llm-stacks:servingReplicas": replicas}) == [message]


def test_a_fixed_number_beside_limits_is_refused() -> None:
    (message,) = problems(
        {**L4_KUEUE, "llm-stacks:servingReplicas": "1", "llm-stacks:servingReplicas.max": "2"}
    )
    assert message == (
        "servingReplicas.max: servingReplicas fixes the number of servers; run `pulumi config rm "
        "servingReplicas`, or remove servingReplicas.max"
    )


@pytest.mark.parametrize("resource", ["l4-kueue-serving-metrics", "l4-kueue-serving-autoscaler"])
def test_after_a_failure_of_the_autoscaler_the_next_up_goes_on_and_nothing_is_left(resource: str) -> None:
    with Rehearsal(STACK, {"imageUri": plans.IMAGE, "servingReplicas": '{"max": 3}'}) as rehearsal:
        rehearsal.faults.add([resource])
        with pytest.raises(RehearsalError, match=resource):
            rehearsal.up()
        assert [*rehearsal.cloud.of_type("kubernetes:apps/v1:Deployment")]
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        rehearsal.remove()
        assert rehearsal.cloud.items == []
