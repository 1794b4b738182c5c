"""What must hold of the l4-kueue stack, on the real engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud.machines import G2_MACHINES
from engine.plan import Plan
from finetune.__main__ import make_parser
from rehearsal import Rehearsal
from stacks.l4_kueue import Settings
from stacks.reader import choices, keys_of
from tests import plans

STACK = "l4-kueue"
ROOT = Path(__file__).parent.parent.parent
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plans.shipped(STACK)


@pytest.fixture(scope="module")
def autopilot(plan_with: Callable[..., Plan]) -> Plan:
    return plan_with(clusterMode="autopilot")


def serving(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":apps/v1:Deployment").inputs


def fine_tune(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":batch/v1:Job").inputs


def quotas(plan: Plan) -> dict[str, str]:
    (group,) = plans.only(plan, ":ClusterQueue").inputs["spec"]["resourceGroups"]
    return {each["name"]: each["nominalQuota"] for each in group["flavors"][0]["resources"]}


def kueue_configuration(plan: Plan) -> dict[str, Any]:
    values = plans.only(plan, ":helm.sh/v3:Release").inputs["values"]
    return yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])


# Pods


def test_server_and_trainer_run_as_accounts_of_their_own(plan: Plan) -> None:
    accounts = {name: spec["serviceAccountName"] for name, spec in plans.pod_specs(plan)}
    assert accounts == {"l4-kueue-serving": "serving", "l4-kueue-job": "finetune"}
    for name, spec in plans.pod_specs(plan):
        assert spec["automountServiceAccountToken"] is False, name


def test_a_node_holds_as_many_pods_as_its_gpus_serve(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        size = container["resources"]["requests"]
        assert size == container["resources"]["limits"], name
        for machine in G2_MACHINES.values():
            pods = machine.count // int(size["nvidia.com/gpu"])
            assert pods * int(size["cpu"]) <= machine.pod_cpus or not pods, machine.name
            assert pods * int(size["memory"].removesuffix("Gi")) <= machine.pod_memory_gib or not pods


# The queue


def test_the_queue_gives_no_more_than_the_nodes_have(plan: Plan, plan_with: Callable[..., Plan]) -> None:
    # g2-standard-24: 24 vCPU, 96 GiB and a boot disk of 200 GB, less what GKE and its daemons take.
    assert quotas(plan) == {
        "nvidia.com/gpu": "6",
        "cpu": "66",
        "memory": "258Gi",
        "ephemeral-storage": "288Gi",
    }
    assert quotas(plan_with(nodes="4"))["nvidia.com/gpu"] == "8"
    assert quotas(plan_with(machineType="g2-standard-48"))["nvidia.com/gpu"] == "12"


def test_serving_pre_empts_the_fine_tune_and_not_the_other_way_round(plan: Plan) -> None:
    values = {
        each.inputs["metadata"]["name"]: each.inputs["value"]
        for each in plans.of_type(plan, ":WorkloadPriorityClass")
    }
    labels = {kind: each["metadata"]["labels"] for kind, each in _workloads(plan).items()}
    assert {each[QUEUE] for each in labels.values()} == {"llm"}
    assert values[labels["serving"][PRIORITY]] > values[labels["fine-tune"][PRIORITY]]
    preemption = plans.only(plan, ":ClusterQueue").inputs["spec"]["preemption"]
    assert preemption == {"withinClusterQueue": "LowerPriority"}


def test_every_priority_that_may_be_set_has_a_class(plan: Plan) -> None:
    classes = {each.inputs["metadata"]["name"] for each in plans.of_type(plan, ":WorkloadPriorityClass")}
    assert classes == set(choices(keys_of(Settings)["servingPriority"].annotation))


def test_a_fine_tune_that_must_finish_can_be_made_as_important_as_serving(
    plan_with: Callable[..., Plan],
) -> None:
    labels = {
        each["metadata"]["labels"][PRIORITY]
        for each in _workloads(plan_with(trainingPriority="high")).values()
    }
    assert labels == {"high"}


def test_kueue_alone_decides_who_gives_way(plan: Plan) -> None:
    assert not plans.of_type(plan, ":PriorityClass")
    assert not [name for name, spec in plans.pod_specs(plan) if "priorityClassName" in spec]


def _workloads(plan: Plan) -> dict[str, dict[str, Any]]:
    return {"serving": serving(plan), "fine-tune": fine_tune(plan)}


def test_kueue_touches_no_namespace_but_llm(plan: Plan) -> None:
    configuration = kueue_configuration(plan)
    assert configuration["apiVersion"] == "config.kueue.x-k8s.io/v1beta2"
    assert configuration["managedJobsNamespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["llm"]}]
    }


def test_the_webhook_listens_where_its_service_sends(plan: Plan) -> None:
    values = plans.only(plan, ":helm.sh/v3:Release").inputs["values"]
    (port,) = values["webhookService"]["ports"]
    assert port["targetPort"] == kueue_configuration(plan)["webhook"]["port"]


def test_a_server_that_takes_long_to_start_keeps_its_gpus_meanwhile(plan: Plan) -> None:
    (container,) = serving(plan)["spec"]["template"]["spec"]["containers"]
    startup = container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"]
    minutes = int(kueue_configuration(plan)["waitForPodsReady"]["timeout"].removesuffix("m"))
    assert 20 * 60 <= startup < minutes * 60


# Serving


def test_replicas_are_what_the_setting_says(plan_with: Callable[..., Plan]) -> None:
    assert serving(plan_with(servingReplicas="4"))["spec"]["replicas"] == 4


def test_without_the_setting_an_autoscaler_decides_and_no_update_takes_it_back() -> None:
    rehearsal = Rehearsal(STACK)
    del rehearsal.configuration.plain["llm-stacks:servingReplicas"]
    with rehearsal:
        assert "replicas" not in serving(rehearsal.preview())["spec"]


def test_a_changed_server_replaces_one_replica_at_a_time_and_needs_no_spare_gpus(plan: Plan) -> None:
    rolling = serving(plan)["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    budget = plans.only(plan, ":PodDisruptionBudget").inputs["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == serving(plan)["spec"]["selector"]


def test_the_model_is_spread_over_the_gpus_that_the_pod_has(plan_with: Callable[..., Plan]) -> None:
    spec = serving(plan_with(servingModel="google/gemma-3-4b-it"))["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][0] == "google/gemma-3-4b-it"
    assert "--tensor-parallel-size=2" in container["args"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_up_waits_for_no_pod(plan: Plan) -> None:
    service = plans.named(plan, "l4-kueue-serving-service").inputs
    for each in (serving(plan), fine_tune(plan), service):
        assert each["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true", each["kind"]


# The fine-tune


def test_two_pods_with_two_processes_each_meet_at_the_first(plan: Plan) -> None:
    job = fine_tune(plan)
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == (
        "Indexed",
        2,
        2,
    )
    (container,) = job["spec"]["template"]["spec"]["containers"]
    python, module, package, *command = container["command"]
    assert (python, module, package) == ("python", "-m", "finetune")
    options = make_parser().parse_args([*command, *container["args"]])
    assert (options.command, options.processes, options.nodes) == ("torchrun", 2, 2)
    assert options.rendezvous == f"{job['metadata']['name']}-0.finetune:29500"
    assert options.recipe == "gemma-3-4b-sql"


def test_the_meeting_point_has_a_name_before_any_pod_is_ready(plan: Plan) -> None:
    service = plans.named(plan, "l4-kueue-finetune-service").inputs
    template = fine_tune(plan)["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["metadata"]["name"] == template["spec"]["subdomain"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]


def test_pre_emption_never_uses_up_the_jobs_retries_and_bad_input_ends_it(plan: Plan) -> None:
    rules = fine_tune(plan)["spec"]["podFailurePolicy"]["rules"]
    actions = {
        code: rule["action"]
        for rule in rules
        if "onExitCodes" in rule
        for code in rule["onExitCodes"]["values"]
    }
    assert actions == {143: "Ignore", 2: "FailJob"}
    (disrupted,) = [rule for rule in rules if "onPodConditions" in rule]
    assert disrupted["action"] == "Ignore"
    assert disrupted["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_serving_waits_two_minutes_at_most_for_the_gpus_of_the_fine_tune(plan: Plan) -> None:
    assert fine_tune(plan)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] <= 120


def test_only_kueue_suspends_and_resumes(plan: Plan) -> None:
    assert "suspend" not in fine_tune(plan)["spec"]


# The network


def test_nobody_reaches_a_pod_but_as_it_is_meant_to_be(plan: Plan) -> None:
    policies = {
        each.inputs["metadata"]["name"]: each.inputs["spec"] for each in plans.of_type(plan, ":NetworkPolicy")
    }
    assert policies.pop("deny-ingress") == {"podSelector": {}, "policyTypes": ["Ingress"]}
    reach = {
        policy["podSelector"]["matchLabels"]["app"]: (rule["from"], rule["ports"])
        for policy in policies.values()
        for rule in policy["ingress"]
    }
    trainers = [{"podSelector": {"matchLabels": {"app": "finetune"}}}]
    assert reach == {
        "serving": ([{"podSelector": {}}], [{"protocol": "TCP", "port": 8000}]),
        "finetune": (trainers, [{"protocol": "TCP", "port": 1024, "endPort": 65535}]),
    }


# Cluster and nodes


def _l4_pool(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, "l4-kueue-l4-pool").inputs


def test_fewer_kept_nodes_let_the_autoscaler_decide_up_to_the_quota(plan_with: Callable[..., Plan]) -> None:
    pool = _l4_pool(plan_with(minNodes="0", zones='["us-central1-a", "us-central1-b"]'))
    assert pool["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"}
    assert "nodeCount" not in pool


@pytest.mark.parametrize(
    ("overrides", "node", "repaired"),
    [
        ({"capacity_type": "spot"}, {"spot": True, "flexStart": False}, True),
        ({"capacity_type": "flexStart"}, {"spot": False, "flexStart": True}, False),
        (
            {"capacity_type": "reservation", "capacity_reservation": "mine"},
            {
                "reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["mine"],
                }
            },
            True,
        ),
    ],
)
def test_the_pool_takes_its_machines_from_the_capacity(
    overrides: dict, node: dict, repaired: bool, plan_with: Callable[..., Plan]
) -> None:
    pool = _l4_pool(plan_with(**overrides))
    assert node.items() <= pool["nodeConfig"].items()
    assert pool["management"]["autoRepair"] is repaired
    # Started by pods, or there from the beginning.
    assert ("autoscaling" in pool) == ("nodeCount" not in pool) == (not repaired)


def test_an_autopilot_cluster_has_no_pools_and_pods_say_what_they_need(autopilot: Plan) -> None:
    assert not plans.of_type(autopilot, ":NodePool")
    assert plans.named(autopilot, "l4-kueue-cluster").inputs["enableAutopilot"] is True
    for name, spec in plans.pod_specs(autopilot):
        assert spec["nodeSelector"] == {
            "cloud.google.com/gke-accelerator": "nvidia-l4",
            "cloud.google.com/gke-gpu-driver-version": "latest",
        }, name
    assert quotas(autopilot)["nvidia.com/gpu"] == "6"


def test_the_flavor_is_the_nodes_that_the_pods_ask_for(plan: Plan) -> None:
    flavor = plans.only(plan, ":ResourceFlavor").inputs["spec"]["nodeLabels"]
    for name, spec in plans.pod_specs(plan):
        assert flavor.items() <= spec["nodeSelector"].items(), name
