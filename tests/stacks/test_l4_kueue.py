"""What belongs together in the l4-kueue stack, and what settings make of it, on the real engine.

Its plan as it is: tests/inventories.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cloud.machines import G2_MACHINES, Machine, allocatable_disk_gib
from engine.plan import Plan
from finetune.__main__ import make_parser
from rehearsal.session import Rehearsal
from shared.exit_codes import Exit
from stacks import pins
from stacks.scenarios.l4_kueue import GPUS_PER_POD, Settings
from tests import plans
from tests.stacks.configuration import L4_KUEUE, problems

STACK = "l4-kueue"
COPY = "l4-kueue-weights-job"
TRIAL = "l4-kueue-trial-job"
PRIORITY = "kueue.x-k8s.io/priority-class"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plans.shipped(STACK)


def serving(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":apps/v1:Deployment").inputs


def fine_tune(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, "l4-kueue-job").inputs


def gpu_pods(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """The specs of the servers and the fine-tune, after the name of their resource."""
    return [(name, spec) for name, spec in plans.pod_specs(plan) if name not in (COPY, TRIAL)]


def sizes(plan: Plan) -> list[tuple[str, dict[str, str]]]:
    """What the containers of servers and fine-tune ask for."""
    return [
        (name, container["resources"]["requests"])
        for name, spec in gpu_pods(plan)
        for container in spec["containers"]
    ]


def priority_of(inputs: dict[str, Any]) -> str:
    """The priority in Kueue's queue."""
    return inputs["metadata"]["labels"][PRIORITY]


def quotas(plan: Plan) -> dict[str, str]:
    (group,) = plans.only(plan, ":ClusterQueue").inputs["spec"]["resourceGroups"]
    return {resource["name"]: resource["nominalQuota"] for resource in group["flavors"][0]["resources"]}


def kueue_values(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of Kueue's chart, and its configuration among them."""
    values = plans.only(plan, ":helm.sh/v3:Release").inputs["values"]
    return values, yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])


# Pods and nodes


LARGE_MACHINES = [machine for machine in G2_MACHINES.values() if machine.count >= GPUS_PER_POD]


@pytest.mark.parametrize("machine", LARGE_MACHINES, ids=lambda machine: machine.name)
def test_a_node_of_any_machine_holds_as_many_pods_as_its_gpus_serve(
    machine: Machine, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(machineType=machine.name)
    pods = machine.count // GPUS_PER_POD
    disk_gb = plans.named(plan, "l4-kueue-l4-pool").inputs["nodeConfig"]["diskSizeGb"]
    for name, size in sizes(plan):
        assert size["nvidia.com/gpu"] == str(GPUS_PER_POD), name
        assert pods * int(size["cpu"]) <= machine.pod_cpus, name
        assert pods * gib(size["memory"]) <= machine.pod_memory_gib, name
        assert pods * gib(size["ephemeral-storage"]) <= allocatable_disk_gib(disk_gb), name


@pytest.mark.parametrize("machine", LARGE_MACHINES, ids=lambda machine: machine.name)
def test_the_quota_admits_as_many_pods_as_all_gpus_serve(
    machine: Machine, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(machineType=machine.name)
    quota = quotas(plan)
    pods = int(quota["nvidia.com/gpu"]) // GPUS_PER_POD
    for name, size in sizes(plan):
        assert pods * int(size["cpu"]) <= int(quota["cpu"]), name
        for resource in ("memory", "ephemeral-storage"):
            assert pods * gib(size[resource]) <= gib(quota[resource]), f"{name} {resource}"


@pytest.mark.parametrize("machine", LARGE_MACHINES, ids=lambda machine: machine.name)
def test_a_pod_may_fill_its_scratch_space(machine: Machine, plan_with: Callable[..., Plan]) -> None:
    for name, spec in gpu_pods(plan_with(machineType=machine.name)):
        (scratch,) = (volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "scratch")
        (container,) = spec["containers"]
        size = container["resources"]["requests"]["ephemeral-storage"]
        assert gib(scratch["sizeLimit"]) <= gib(size), name


def test_another_machine_changes_what_a_pod_asks_for(plan: Plan, plan_with: Callable[..., Plan]) -> None:
    other = plan_with(machineType="g2-standard-48")
    sizes = [serving(it)["spec"]["template"]["spec"]["containers"][0]["resources"] for it in (plan, other)]
    assert sizes[0]["requests"]["cpu"] != sizes[1]["requests"]["cpu"]


def gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


def test_the_flavor_is_the_nodes_that_the_pods_ask_for(plan: Plan) -> None:
    flavor = plans.only(plan, ":ResourceFlavor").inputs["spec"]["nodeLabels"]
    for name, spec in gpu_pods(plan):
        assert flavor.items() <= spec["nodeSelector"].items(), name


def test_fewer_kept_nodes_let_the_autoscaler_decide_up_to_the_quota(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(minNodes="0", zones='["us-central1-a", "us-central1-b"]')
    pool = plans.named(plan, "l4-kueue-l4-pool").inputs
    assert pool["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"}
    assert "nodeCount" not in pool


def test_an_autopilot_cluster_has_no_pools_and_pods_say_what_they_need(
    plan_with: Callable[..., Plan],
) -> None:
    plan = plan_with(clusterMode="autopilot")
    assert not plans.of_type(plan, ":NodePool")
    assert plans.named(plan, "l4-kueue-cluster").inputs["enableAutopilot"] is True
    for name, spec in gpu_pods(plan):
        assert spec["nodeSelector"] == {
            "cloud.google.com/gke-accelerator": "nvidia-l4",
            "cloud.google.com/gke-gpu-driver-version": "latest",
        }, name
    assert quotas(plan)["nvidia.com/gpu"] == "6"


# The queue


def test_the_queue_gives_no_more_than_the_nodes_have(plan_with: Callable[..., Plan]) -> None:
    assert quotas(plan_with(nodes="4"))["nvidia.com/gpu"] == "8"
    assert quotas(plan_with(machineType="g2-standard-48"))["nvidia.com/gpu"] == "12"


def test_serving_pre_empts_the_fine_tune_and_not_the_other_way_round(plan: Plan) -> None:
    values = {
        priority.inputs["metadata"]["name"]: priority.inputs["value"]
        for priority in plans.of_type(plan, ":WorkloadPriorityClass")
    }
    high, low = priority_of(serving(plan)), priority_of(fine_tune(plan))
    assert values[high] > values[low]
    preemption = plans.only(plan, ":ClusterQueue").inputs["spec"]["preemption"]
    assert preemption == {"withinClusterQueue": "LowerPriority"}


def test_the_webhook_listens_where_its_service_sends(plan: Plan) -> None:
    values, configuration = kueue_values(plan)
    (port,) = values["webhookService"]["ports"]
    assert port["targetPort"] == configuration["webhook"]["port"]


def test_kueues_manager_is_the_pinned_image_by_digest(plan: Plan) -> None:
    """The chart writes the image as REPOSITORY:TAG."""
    image = kueue_values(plan)[0]["controllerManager"]["manager"]["image"]
    assert "{repository}:{tag}".format(**image) == pins.KUEUE_IMAGE
    assert re.fullmatch(r"registry\.k8s\.io/kueue/kueue@sha256:[0-9a-f]{64}", pins.KUEUE_IMAGE)


def test_a_server_that_takes_long_to_start_keeps_its_gpus_meanwhile(plan: Plan) -> None:
    (container,) = serving(plan)["spec"]["template"]["spec"]["containers"]
    startup = container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"]
    minutes = int(kueue_values(plan)[1]["waitForPodsReady"]["timeout"].removesuffix("m"))
    assert 20 * 60 <= startup < minutes * 60


# Serving


def test_a_server_that_ends_takes_no_new_requests_and_answers_those_under_way() -> None:
    pod = serving(plans.standing_plan(plans.standing(STACK)))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    (answers,) = [word.partition("=")[2] for word in container["args"] if "--shutdown-timeout" in word]
    assert pause > 0 and int(answers) >= 30
    assert pause + int(answers) < pod["terminationGracePeriodSeconds"]


def test_replicas_and_model_are_what_the_settings_say() -> None:
    plan = plans.planned_next(STACK, servingReplicas="4", servingModel="google/gemma-3-4b-it@v1.0")
    spec = serving(plan)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 4
    assert "--served-model-name=google/gemma-3-4b-it" in container["args"]
    assert f"--tensor-parallel-size={container['resources']['limits']['nvidia.com/gpu']}" in container["args"]


def test_without_the_setting_an_autoscaler_decides_and_no_update_takes_it_back() -> None:
    rehearsal = Rehearsal(STACK)
    del rehearsal.configuration.plain["llm-stacks:servingReplicas"]
    with rehearsal:
        assert "replicas" not in serving(rehearsal.preview())["spec"]


# The copy of the model in the bucket


@pytest.mark.parametrize("model", ["google/gemma-3-4b-it", "google/gemma-3-4b-it@v1.0"])
def test_servers_read_what_the_job_has_copied_and_never_the_hub(model: str) -> None:
    plan = plans.planned_next(STACK, servingModel=model)
    pod = plans.named(plan, COPY).inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = make_parser().parse_args([*container["command"][3:], *container["args"]])
    name, _, revision = model.partition("@")
    assert (options.command, options.model, options.revision) == ("copy", name, revision or None)
    (server,) = serving(plan)["spec"]["template"]["spec"]["containers"]
    assert server["args"][0] == f"{options.folder}/model"
    # The Job refuses a model with which these servers would not start.
    own = {f"--max-model-len={options.max_model_len}", f"--tensor-parallel-size={options.gpus}"}
    assert own <= {*server["args"]}
    assert "--load-format=runai_streamer" in server["args"]
    tokens = [[it["name"] for it in pod["env"] if "valueFrom" in it] for pod in (container, server)]
    assert tokens == [["HF_TOKEN"], []]


def test_no_server_and_no_gpu_waits_for_the_copy(plan: Plan) -> None:
    """`up` creates the servers after it. The Job takes nothing of the queue, and needs no GPU."""
    copy = plans.named(plan, COPY)
    assert copy in plans.awaited(plan, plans.only(plan, ":apps/v1:Deployment"))
    assert "pulumi.com/skipAwait" not in copy.inputs["metadata"].get("annotations", {})
    assert "labels" not in copy.inputs["metadata"]
    (container,) = copy.inputs["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]


def test_a_copy_that_cannot_succeed_is_not_tried_again(plan: Plan) -> None:
    rules = plans.named(plan, COPY).inputs["spec"]["podFailurePolicy"]["rules"]
    actions = {
        code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", ())
    }
    assert actions == {Exit.INTERRUPTED: "Ignore", Exit.BAD_INPUT: "FailJob"}


def test_a_stack_that_serves_its_own_run_copies_nothing(plan_with: Callable[..., Plan]) -> None:
    assert COPY not in {resource.name for resource in plan_with(serve="run").resources}


# The fine-tune


def test_its_pods_meet_at_the_first_with_a_process_for_each_gpu(plan: Plan) -> None:
    job = fine_tune(plan)
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    python, module, package, *command = container["command"]
    assert (python, module, package) == ("python", "-m", "finetune")
    options = make_parser().parse_args([*command, *container["args"]])
    assert options.nodes == job["spec"]["completions"] == job["spec"]["parallelism"]
    assert options.processes == int(container["resources"]["limits"]["nvidia.com/gpu"])
    service = plans.named(plan, "l4-kueue-finetune-service").inputs
    assert service["metadata"]["name"] == template["spec"]["subdomain"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    (name,) = [item for item in container["env"] if item["name"] == "JOB_NAME"]
    assert name["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['batch.kubernetes.io/job-name']"
    assert options.rendezvous == f"$(JOB_NAME)-0.{service['metadata']['name']}:29500"


def test_pre_emption_never_uses_up_the_jobs_retries(plan: Plan) -> None:
    rules = fine_tune(plan)["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules if 143 in rule.get("onExitCodes", {}).get("values", ())] == [
        "Ignore"
    ]


def test_an_output_that_shows_a_log_is_named_after_what_writes_it() -> None:
    rehearsal = plans.standing(STACK)
    logs = {name: words for name, words in plans.outputs(rehearsal).items() if " logs " in words}
    assert set(logs) == {"watchTraining", "watchServer"}
    standing = plans.standing_plan(rehearsal)
    assert logs["watchTraining"].endswith(f"job-name={fine_tune(standing)['metadata']['name']}")
    (label,) = serving(standing)["spec"]["selector"]["matchLabels"].items()
    assert logs["watchServer"].endswith("--selector {}={}".format(*label))
    # Not of five pods alone, which is as many as kubectl follows by itself.
    (most,) = (part.le for part in Settings.model_fields["serving_replicas"].metadata if hasattr(part, "le"))
    assert f"--max-log-requests={most} " in logs["watchServer"]


# Capacity and zones


def test_a_list_of_capacities_has_a_pool_and_a_flavor_for_each_capacity_and_keeps_no_machine() -> None:
    plan = plans.shipped(STACK, imageUri=plans.IMAGE, capacity_type='["onDemand", "spot"]')
    pools = {
        pool.name: (pool.inputs["nodeConfig"]["labels"], pool.inputs["autoscaling"])
        for pool in plan.resources
        if pool.type == "gcp:container/nodePool:NodePool" and "labels" in pool.inputs["nodeConfig"]
    }
    limits = {"locationPolicy": "ANY", "totalMaxNodeCount": 3, "totalMinNodeCount": 0}
    assert pools == {
        f"l4-kueue-l4-{name}-pool": ({"llm-stacks/capacity": name}, limits) for name in ("on-demand", "spot")
    }
    queue = plans.only(plan, ":ClusterQueue").inputs["spec"]["resourceGroups"][0]
    assert [flavor["name"] for flavor in queue["flavors"]] == ["on-demand", "spot"]


def test_all_wrong_zones_of_a_list_are_named() -> None:
    (message,) = problems({**L4_KUEUE, "llm-stacks:zones": '["us-central1-f", "europe-west4-a"]'})
    assert message.startswith("zones: not a zone of us-central1 with L4 GPUs: us-central1-f, europe-west4-a;")
