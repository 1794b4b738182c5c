"""A list of capacities: what is refused, and what a plan makes of it."""

import json
from typing import Any

import pytest

from cloud.machines import MACHINES
from components.cluster.capacity import CapacityType
from engine.plan import Plan, Planned
from engine.project import ROOT
from stacks.settings.capacity import warn_of_no_sale
from tests import plans
from tests.stacks.configuration import (
    A4_ACCELERATE,
    A4_RAY,
    L4_KUEUE,
    TPU_MAXTEXT,
    by_scenario,
    load,
    problems,
)

TYPE, MINUTES, ZONE = (f"llm-stacks:capacity.{key}" for key in ("type", "minutes", "zone"))
REGISTRY = "us-central1-docker.pkg.dev/mirror-project/images"
LIST = '["reservation", "flexStart", "spot"]'
STACKS = plans.stacks_with("capacity.minutes", "capacity.zone")
# With two nodes.
A4 = {**A4_RAY, TYPE: LIST, ZONE: "us-central1-b"}
BAD: list[tuple[dict[str, str | None], str]] = [
    (
        {**A4_RAY, TYPE: "[]"},
        "capacity.type: the list is empty; name one of reservation, onDemand, spot, flexStart",
    ),
    (
        {**A4_RAY, TYPE: '["spot", "reservation", "spot"]'},
        "capacity.type: spot is there twice; name each kind once, the one to try first at first",
    ),
    (
        {**A4_RAY, TYPE: '["reservation", "flexstart"]'},
        'capacity.type: \'["reservation", "flexstart"]\' is not one of reservation, onDemand, spot, '
        "flexStart, or a list of them; did you mean flexStart?",
    ),
    (
        {**A4_RAY, TYPE: "spot and flexStart"},
        "capacity.type: 'spot and flexStart' is not one of reservation, onDemand, spot, flexStart, or a list "
        "of them; did you mean flexStart?",
    ),
    (
        {**A4, "llm-stacks:capacity.reservation": None},
        "capacity.reservation: missing, and capacity.type is reservation; name the reservation with "
        "`pulumi config set capacity.reservation MY_RESERVATION`, or choose capacity.type spot, flexStart or "
        "onDemand",
    ),
    (
        {**A4_RAY, TYPE: '["flexStart", "spot"]', ZONE: "us-central1-b"},
        "capacity.reservation: only capacity.type reservation consumes a reservation, and flexStart would "
        "ignore it; remove capacity.reservation or set capacity.type to reservation",
    ),
    (
        {**A4_RAY, TYPE: LIST},
        "workers: 2 nodes must be in one zone, and flexStart and spot could come from any; name one with "
        "`pulumi config set capacity.zone ZONE`",
    ),
    (
        {**A4, ZONE: "us-east1-b"},
        "capacity.zone: us-east1-b is not a zone of us-central1, the stack's gcp:region",
    ),
    (
        {**A4, ZONE: "us-central1"},
        "capacity.zone: 'us-central1' is not a zone such as us-central1-b (not a region)",
    ),
    (
        {**A4_RAY, ZONE: "us-central1-b"},
        "capacity.zone: only a list of capacities has a zone; remove it, or add a capacity",
    ),
    (
        {**A4, MINUTES: "[30, 30]"},
        "capacity.minutes: there are 2 numbers for 3 capacities; give one for each of reservation, "
        "flexStart, spot",
    ),
    (
        {**A4, MINUTES: "[30, 2000, 30]"},
        "capacity.minutes: 2000 is not a number from 1 to 1440, which is a day",
    ),
    (
        {**A4, MINUTES: "[]"},
        "capacity.minutes: there are 0 numbers for 3 capacities; give one for each of reservation, "
        "flexStart, spot",
    ),
    (
        {**A4_RAY, MINUTES: "[]"},
        "capacity.minutes: after reservation there is no other capacity to try; remove it",
    ),
    (
        {**A4_RAY, MINUTES: "[30]"},
        "capacity.minutes: after reservation there is no other capacity to try; remove it",
    ),
    (
        {**A4, "llm-stacks:rayCluster": "shared"},
        "rayCluster: a list of capacities moves a job with its nodes, and a shared cluster keeps them; "
        "choose perJob, or one capacity.type",
    ),
    (
        {**TPU_MAXTEXT, TYPE: '["flexStart", "spot"]'},
        "capacity.type: this scenario takes one kind; name one of flexStart, spot",
    ),
    (
        {**L4_KUEUE, TYPE: '["onDemand", "spot"]', "llm-stacks:minNodes": "1"},
        "minNodes: machines of capacity.type flexStart, or of a list, start when pods request them; set "
        "minNodes to 0",
    ),
]


@pytest.mark.parametrize(("changes", "message"), by_scenario(BAD))
def test_a_wrong_list_is_refused_in_one_line_with_the_remedy(
    changes: dict[str, str | None], message: str
) -> None:
    assert message in problems(changes)
    assert len(problems(changes)) == 1


@pytest.mark.parametrize(
    "scenario", [pytest.param(A4_RAY, id="a4-ray"), pytest.param(A4_ACCELERATE, id="a4-accelerate")]
)
def test_a_capacity_has_its_own_minutes_and_flex_start_waits_longer(
    scenario: dict[str, str | None],
) -> None:
    several = {**scenario, TYPE: LIST, ZONE: "us-central1-b"}
    assert load(several).capacity.chain.minutes == (30, 240, 30)
    assert load({**several, MINUTES: "[10, 600, 20]"}).capacity.chain.minutes == (10, 600, 20)


def test_the_zone_of_a_list_may_be_one_for_ai() -> None:
    here = {**A4, "gcp:region": "us-south1", ZONE: "us-south1-ai1b"}
    assert load(here).capacity.chain.zone == "us-south1-ai1b"


def test_a_machine_that_google_does_not_sell_on_demand_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", warnings.append)
    for machine in MACHINES.values():
        warn_of_no_sale((CapacityType.ON_DEMAND,), machine)
        warn_of_no_sale((CapacityType.SPOT, CapacityType.RESERVATION), machine)
    names = ["a4-highgpu-8g", "a3-ultragpu-8g", *(f"a3-highgpu-{gpus}g" for gpus in (1, 2, 4))]
    assert [warning.split()[4] for warning in warnings] == names


def rules_of(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """The rules of each class of a plan, by its name."""
    classes = [
        resource.inputs for resource in plan.resources if resource.inputs.get("kind") == "ComputeClass"
    ]
    return {tree["metadata"]["name"]: tree["spec"]["priorities"] for tree in classes}


def on_two_nodes(stack: str) -> Plan:
    """The plan of a job on two nodes that may come from each capacity of the list."""
    nodes = plans.known_settings(stack, nodes="2")
    return plans.shipped(
        stack, imageUri=plans.IMAGE, capacity_type=LIST, capacity_zone="us-central1-b", **nodes
    )


def kinds_of(rules: list[dict[str, Any]]) -> list[str]:
    """What says the capacity in each rule."""
    return [key for rule in rules for key in ("reservations", "flexStart", "spot") if key in rule]


def test_a_job_on_one_node_chooses_a_class_with_a_rule_for_each_capacity() -> None:
    plan = plans.shipped("a4-accelerate", imageUri=plans.IMAGE, capacity_type=LIST)
    (name,), (rules,) = zip(*rules_of(plan).items(), strict=True)
    assert kinds_of(rules) == ["reservations", "flexStart", "spot"]
    assert rules[1]["capacityCheckWaitTimeSeconds"] == 240 * 60
    spec = plans.training(plan).inputs["spec"]["template"]["spec"]
    # GKE refuses a pod that names a class and a capacity.
    assert spec["nodeSelector"] == {"cloud.google.com/compute-class": name}
    assert "safe-to-evict" not in json.dumps(plans.training(plan).inputs)


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_a_job_on_several_nodes_waits_in_a_queue_with_a_class_in_one_zone_for_each_capacity(
    stack: str,
) -> None:
    plan = on_two_nodes(stack)
    rules = rules_of(plan)
    assert {name: kinds_of(of_class) for name, of_class in rules.items()} == {
        "reservation": ["reservations"],
        "flex-start": ["flexStart"],
        "spot": ["spot"],
    }
    for name in ("flex-start", "spot"):
        assert rules[name][0]["location"] == {"zones": ["us-central1-b"]}
    job = plans.training(plan).inputs
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "accelerators"}
    # Kueue writes the class into the pods. Anything else would narrow its choice.
    assert "cloud.google.com" not in json.dumps(job["spec"])


def test_one_word_stays_a_label_of_the_pods_without_a_class_or_a_queue() -> None:
    plan = plans.shipped("a4-accelerate", imageUri=plans.IMAGE, capacity_type='["spot"]')
    assert rules_of(plan) == {}
    selector = plans.training(plan).inputs["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["cloud.google.com/gke-spot"] == "true"


def test_a_server_of_a_list_chooses_a_class() -> None:
    plan = plans.shipped("serve", capacity_type='["onDemand", "flexStart", "spot"]')
    assert kinds_of(rules_of(plan)["accelerators"]) == ["flexStart", "spot"]


def keeper_of(plan: Plan) -> Planned:
    (keeper,) = (item for item in plans.of_type(plan, ":Deployment") if "capacity-keeper" in item.name)
    return keeper


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_the_keeper_runs_no_package_of_the_training_and_is_reached_by_nobody(stack: str) -> None:
    plan = on_two_nodes(stack)
    keeper = keeper_of(plan)
    pod = keeper.inputs["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert f"ARG BASE={container['image']}\n" in (ROOT / "workloads/finetune/Dockerfile").read_text()
    (policy,) = (item for item in plans.of_type(plan, ":NetworkPolicy") if "capacity-keeper" in item.name)
    assert policy.inputs["metadata"]["namespace"] == "kueue-system"
    spec = policy.inputs["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert (spec["policyTypes"], spec.get("ingress")) == (["Ingress", "Egress"], None)
    assert spec["egress"] == [{"ports": [{"protocol": "TCP", "port": 443}]}]
    assert policy in plans.awaited(plan, keeper)


def test_its_image_comes_from_the_registry_of_the_settings() -> None:
    plan = plans.shipped("l4-kueue", capacity_type='["spot", "flexStart"]', registry=REGISTRY)
    (container,) = keeper_of(plan).inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith(f"{REGISTRY}/library/python:3.12-slim-bookworm@sha256:")
    assert [item for item in plan.resources if item.name.endswith("-nodes-pull-images")]


def tolerated(plan: Plan, spec: dict[str, Any]) -> set[str]:
    """Keys of the taints that a pod tolerates, by itself or by all flavors of its queue."""
    flavors = [flavor.inputs["spec"] for flavor in plans.of_type(plan, ":ResourceFlavor")]
    of_flavors = [
        {entry["key"] for entry in flavor.get("tolerations", ())}
        for flavor in flavors
        if "cloud.google.com/compute-class" in flavor["nodeLabels"]
    ]
    by_queue = set.intersection(*of_flavors) if of_flavors else set()
    return {entry["key"] for entry in spec.get("tolerations", ())} | by_queue


ONE_NODE_OR_MORE: list[tuple[str, dict[str, str]]] = [
    ("a4-accelerate", {"capacity_type": LIST}),
    ("a4-accelerate", {"capacity_type": LIST, "capacity_zone": "us-central1-b", "nodes": "2"}),
    ("a4-ray", {"capacity_type": LIST, "capacity_zone": "us-central1-b"}),
    ("a4-ray", {"transport": "rdma"}),
    ("l4-kueue", {"capacity_type": '["onDemand", "spot"]', "clusterMode": "autopilot"}),
    ("serve", {"capacity_type": '["onDemand", "flexStart", "spot"]'}),
]


@pytest.mark.parametrize(("stack", "settings"), ONE_NODE_OR_MORE)
def test_pods_that_choose_a_class_tolerate_the_taint_of_nodes_with_gpus(
    stack: str, settings: dict[str, str]
) -> None:
    plan = plans.shipped(stack, **plans.known_settings(stack, imageUri=plans.IMAGE), **settings)
    assert plans.of_type(plan, "/v1:ComputeClass")
    with_gpus = [
        spec
        for _, spec in plans.pods(plan)
        if any(
            "nvidia.com/gpu" in container["resources"].get("limits", {}) for container in spec["containers"]
        )
    ]
    assert with_gpus
    assert all("nvidia.com/gpu" in tolerated(plan, spec) for spec in with_gpus)


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_the_keeper_may_change_workloads_and_its_own_flavors_and_nothing_else(stack: str) -> None:
    plan = on_two_nodes(stack)
    roles = {
        resource.name: resource.inputs["rules"]
        for resource in plan.resources
        if resource.inputs.get("kind") in ("Role", "ClusterRole") and "capacity-keeper" in resource.name
    }
    assert roles == {
        f"{stack}-capacity-keeper-jobs": [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "resources": ["workloads"],
                "verbs": ["get", "list", "patch", "delete"],
            },
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        ],
        f"{stack}-capacity-keeper-flavors": [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "resources": ["resourceflavors"],
                "resourceNames": ["reservation", "flex-start", "spot"],
                "verbs": ["get", "patch"],
            }
        ],
    }
