"""What the pods of own run, and what a program finds in them, as its framework reads it."""

import json
from typing import Any

import pytest

from cloud.machines import GPU_MACHINES
from engine.plan import Plan
from rehearsal.pods.references import environment, expanded
from tests import plans
from tests.stacks.own_commands import documented_command

STACK = "own"
# A machine of each kind that is set up differently. The others are of the same kinds.
QUICK = ("a4-highgpu-8g", "a3-highgpu-8g", "g4-standard-48")
NO_LAUNCHER = {"launcher": "none"}


def planned(**settings: str) -> Plan:
    return plans.shipped(STACK, imageUri=plans.IMAGE, **settings)


def pod_of(plan: Plan) -> dict[str, Any]:
    (spec,) = [spec for resource, spec in plans.pods(plan) if resource == plans.training(plan)]
    return spec


def in_pod(plan: Plan, index: int) -> tuple[dict[str, str], list[str]]:
    """The variables of pod `index`, and its words as the kubelet fills them in."""
    (container,) = pod_of(plan)["containers"]
    labels = {"batch.kubernetes.io/job-name": "mine", "batch.kubernetes.io/controller-uid": "u"}
    annotations = {"batch.kubernetes.io/job-completion-index": str(index)}
    pod = {"metadata": {"labels": labels, "annotations": annotations}}
    variables = environment(pod, container, lambda *_: {"API_KEY": "of-a-test"})
    words = [*container["command"], *container.get("args", ())]
    return variables, [expanded(word, variables) for word in words]


def test_torchrun_and_jax_find_the_nodes_and_no_process_finds_a_rank() -> None:
    variables, _ = in_pod(planned(nodes="2", machine="g2-standard-24"), 1)
    nodes = {"NNODES": "2", "NPROC_PER_NODE": "2", "NODE_RANK": "1"}
    meeting = {"MASTER_ADDR": "mine-0.program", "MASTER_PORT": "29500"}
    assert {**nodes, **meeting, "WORLD_SIZE": "4"}.items() <= variables.items()
    assert {f"PET_{name}": text for name, text in {**nodes, **meeting}.items()}.items() <= variables.items()
    assert variables["JAX_COORDINATOR_ADDRESS"] == "mine-0.program:29501"
    assert not {"RANK", "LOCAL_RANK"} & variables.keys()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("LLaMA-Factory", ["llamafactory-cli", "train", "my.yaml"]),
        (
            "accelerate",
            [
                *("accelerate", "launch", "--multi_gpu", "--num_machines=2", "--machine_rank=1"),
                *("--main_process_ip=mine-0.program", "--main_process_port=29500", "--num_processes=2"),
                "train.py",
            ],
        ),
        (
            "axolotl",
            [
                *("axolotl", "train", "my.yaml", "--launcher", "torchrun", "--", "--nnodes=2"),
                *("--nproc_per_node=1", "--node_rank=1"),
                *("--master_addr=mine-0.program", "--master_port=29500"),
            ],
        ),
        ("torchrun", ["torchrun", "train.py"]),
        ("a shell script", ["sh", "run.sh"]),
    ],
)
def test_a_documented_command_runs_as_it_is_without_the_launcher(program: str, words: list[str]) -> None:
    command = json.dumps(documented_command(program))
    plan = planned(nodes="2", command=command, variables='{"FORCE_TORCHRUN": "1"}', **NO_LAUNCHER)
    _, run = in_pod(plan, 1)
    assert run == words


def test_the_launcher_starts_the_command_and_knows_how_it_may_end() -> None:
    plan = planned(nodes="2", stopExitCodes="[3, 2]", graceSeconds="20", tries="5")
    _, words = in_pod(plan, 0)
    options, command = words[: words.index("--")], words[words.index("--") + 1 :]
    assert command == ["python", "train.py"]
    expected = {"--nodes=2", "--processes=1", "--rendezvous=mine-0.program:29500", "--stop-exit-codes=2,3"}
    assert expected | {"--grace-seconds=20", "--tries=5"} <= set(options)
    spec = plans.training(planned(nodes="2", stopExitCodes="[3, 2]", graceSeconds="20", tries="5")).inputs[
        "spec"
    ]
    codes = {
        rule["action"]: rule.get("onExitCodes", {}).get("values")
        for rule in spec["podFailurePolicy"]["rules"]
    }
    assert codes["FailJob"] == [2, 3]
    assert spec["backoffLimit"] == 20  # five, two times for each of two nodes
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 20


def test_a_secret_is_in_no_command_and_reaches_the_program() -> None:
    plan = planned(secrets='{"API_KEY": "of-a-test"}')
    variables, words = in_pod(plan, 0)
    assert variables["API_KEY"] == "of-a-test"
    assert "of-a-test" not in json.dumps([resource.inputs for resource in plan.resources], default=str)
    assert "API_KEY" not in " ".join(words)


def test_a_program_writes_where_user_1000_may_unless_it_is_root() -> None:
    variables, _ = in_pod(planned(), 0)
    places = [
        variables[name] for name in ("HOME", "HF_HOME", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "WANDB_DIR")
    ]
    assert all(place.startswith("/tmp") for place in places)
    pod = pod_of(planned(asRoot="true"))
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == 0 and not pod["securityContext"]["runAsNonRoot"]
    rights = container["securityContext"]
    assert not rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"]["drop"] == ["ALL"]
    # Pod Security baseline allows these.
    assert set(rights["capabilities"]["add"]) == {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


def test_without_a_path_for_the_bucket_the_run_has_an_address() -> None:
    mounted, _ = in_pod(planned(), 0)
    assert mounted["RUN_FOLDER"].startswith("/bucket/program-")
    spec = pod_of(planned(bucketAt="/data"))
    assert {"name": "bucket", "mountPath": "/data"} in spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("machine", plans.mostly_slow(GPU_MACHINES, quick=QUICK))
def test_every_gpu_machine_of_the_catalogue_has_a_plan(machine: str) -> None:
    plan = plans.previewed(STACK, {"imageUri": plans.IMAGE, "machine": machine})
    (node_class,) = [
        resource for resource in plans.resources_of(plan) if resource.type.endswith(":ComputeClass")
    ]
    (rule,) = node_class.inputs["spec"]["priorities"]
    catalogued = GPU_MACHINES[machine]
    assert rule["machineType"] == machine
    assert rule["gpu"]["type"] == catalogued.accelerator
    (container,) = pod_of(plan)["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(catalogued.count)
