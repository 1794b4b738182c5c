"""What must hold of the tpu-maxtext stack, on the real engine."""

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud.nodes import node_labels
from engine.plan import Plan
from rehearsal import Rehearsal
from stacks import tpu_maxtext
from tests import plans
from workloads.maxtext.maxtext_driver import recipe

STACK = "tpu-maxtext"
ROOT = Path(__file__).parent.parent.parent
MAXTEXT = ROOT / "workloads" / "maxtext"
SLICE_POOL = "tpu-maxtext-slice-pool"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of workloads/maxtext that the program uses and a test may edit."""
    copy = tmp_path / "maxtext"
    shutil.copytree(MAXTEXT, copy)
    monkeypatch.setattr(tpu_maxtext, "MAXTEXT", copy)
    yield copy


@pytest.fixture
def any_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe that leaves it to MaxText how the chips are used."""
    (tmp_path / "any-slice.yaml").write_text("maxtext: {model_name: llama3-8b, steps: 10}")
    monkeypatch.setattr(recipe, "RECIPES", tmp_path)
    return "any-slice"


def job(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, ":ray.io/v1:RayJob").inputs["spec"]


def ray_cluster(plan: Plan) -> dict[str, Any]:
    return job(plan)["rayClusterSpec"]


def slice_pool(plan: Plan) -> dict[str, Any]:
    return plans.named(plan, SLICE_POOL).inputs


# The slice


@pytest.mark.parametrize(
    ("topology", "machine", "hosts"),
    [("2x4", "ct6e-standard-8t", 1), ("4x4", "ct6e-standard-4t", 4), ("8x8", "ct6e-standard-4t", 16)],
)
def test_the_pool_and_its_workers_are_the_slice_of_the_topology(
    topology: str, machine: str, hosts: int, any_slice: str, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(topology=topology, recipe=any_slice)
    pool = slice_pool(plan)
    assert (pool["nodeConfig"]["machineType"], pool["nodeCount"]) == (machine, hosts)
    assert "autoscaling" not in pool
    policy = {"type": "COMPACT", "tpuTopology": topology} if hosts > 1 else None
    assert pool.get("placementPolicy") == policy
    (group,) = ray_cluster(plan)["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 1)
    assert group["numOfHosts"] == hosts
    assert group["template"]["spec"]["nodeSelector"] == node_labels(pool)


@pytest.mark.parametrize(("overrides", "zone"), [({}, "us-east5-b"), ({"zone": "us-east5-a"}, "us-east5-a")])
def test_cluster_and_nodes_are_in_the_zone_of_the_slice(
    overrides: dict[str, str], zone: str, plan_with: Callable[..., Plan]
) -> None:
    plan = plan_with(**overrides)
    cluster = plans.named(plan, "tpu-maxtext-cluster").inputs
    assert cluster["location"] == zone
    assert "nodeLocations" not in cluster
    for pool in plans.of_type(plan, ":NodePool"):
        if pool.type.startswith("gcp:"):
            assert (pool.inputs["location"], pool.inputs["nodeLocations"]) == (zone, [zone]), pool.name


@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        ({}, {"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}),
        (
            {"capacity_type": "spot"},
            {"spot": True, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}},
        ),
        (
            {
                "capacity_type": "reservation",
                "capacity_reservation": "projects/owner-project/reservations/v6e",
            },
            {
                "reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["projects/owner-project/reservations/v6e"],
                }
            },
        ),
    ],
)
def test_the_slice_comes_from_the_capacity(
    overrides: dict[str, str], config: dict[str, Any], plan_with: Callable[..., Plan]
) -> None:
    pool = slice_pool(plan_with(**overrides))
    assert pool["nodeCount"] == 4
    assert {key: pool["nodeConfig"].get(key) for key in config} == config
    assert pool["management"]["autoRepair"] is True


def test_flex_start_makes_the_whole_slice_when_pods_ask_for_it(plan_with: Callable[..., Plan]) -> None:
    pool = slice_pool(plan_with(capacity_type="flexStart"))
    assert "nodeCount" not in pool
    assert (pool["autoscaling"]["totalMinNodeCount"], pool["autoscaling"]["totalMaxNodeCount"]) == (0, 4)
    assert pool["nodeConfig"]["flexStart"] is True
    assert pool["nodeConfig"]["maxRunDuration"] == "604800s"
    assert pool["management"]["autoRepair"] is False


# Pods


def test_a_job_has_a_head_workers_and_a_submitter(plan: Plan) -> None:
    named = {name.split("/")[1] for name, _ in plans.containers(plan)}
    assert named == {"ray-head", "ray-worker", "ray-job-submitter"}


def test_workers_take_every_chip_of_their_host_and_nobody_else_takes_one(plan: Plan) -> None:
    chips = {
        name.split("/")[1]: container["resources"]["limits"].get("google.com/tpu")
        for name, container in plans.containers(plan)
    }
    assert chips == {"ray-head": None, "ray-worker": "4", "ray-job-submitter": None}


def test_head_and_workers_see_the_bucket_as_a_folder_that_they_may_write(plan: Plan) -> None:
    cluster = ray_cluster(plan)
    templates = [cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]]
    for template in templates:
        assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
        (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "bucket"]
        attributes = volume["csi"]["volumeAttributes"]
        assert "bucketName" in attributes
        assert template["spec"]["securityContext"]["runAsUser"] == 1000
        assert {"uid=1000", "gid=1000"} <= set(attributes["mountOptions"].split(","))
        (container,) = template["spec"]["containers"]
        assert {"name": "bucket", "mountPath": "/data"} in container["volumeMounts"]


def test_every_sidecar_is_sized(plan: Plan) -> None:
    cluster = ray_cluster(plan)
    for template in (cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]):
        sized = {key for key in template["metadata"]["annotations"] if key.endswith("-limit")}
        assert sized == {
            "gke-gcsfuse/cpu-limit",
            "gke-gcsfuse/memory-limit",
            "gke-gcsfuse/ephemeral-storage-limit",
        }
        # No limit is written as 0, which only Standard clusters know.
        assert "0" not in template["metadata"]["annotations"].values()


# The bucket


def test_renaming_a_checkpoint_is_one_step(plan: Plan) -> None:
    bucket = plans.named(plan, "tpu-maxtext-bucket").inputs
    assert bucket["hierarchicalNamespace"] == {"enabled": True}
    assert bucket["uniformBucketLevelAccess"] is True


# The token


def test_without_a_token_there_is_no_secret_and_no_api_for_one(plan: Plan) -> None:
    assert not plans.of_type(plan, ":Secret")
    assert "secretmanager" not in plans.text(plan)
    for name, container in plans.containers(plan):
        for variable in container.get("env", []):
            if variable["name"] == "HF_TOKEN":
                assert variable["valueFrom"]["secretKeyRef"]["optional"] is True, name


def test_a_token_that_comes_later_runs_the_job_again_and_resumes_its_run(
    standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    plan = next_plan(hfToken="hf_mine")
    assert plans.changes(plan)["tpu-maxtext-ray-job"] == "replace"
    assert run_of(job(plan)) == run_of(job_of(standing))


# What the driver is asked


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"recipe": "llama3-8b", "workers": 4, "topology": "4x4", "overrides": []}),
        ({"recipe": "llama3-8b-tutorial"}, {"recipe": "llama3-8b-tutorial"}),
        (
            {"dataset": "hf://datasets/o/d/*.parquet"},
            {
                "overrides": [
                    "dataset_type=grain",
                    "grain_file_type=parquet",
                    "grain_train_files=hf://datasets/o/d/*.parquet",
                    "tokenizer_type=tiktoken",
                    "tokenizer_path=tokenizer_llama3.tiktoken",
                ]
            },
        ),
    ],
)
def test_the_driver_understands_what_it_is_asked(
    settings: dict[str, str],
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    plan_with: Callable[..., Plan],
) -> None:
    monkeypatch.syspath_prepend(MAXTEXT)
    from maxtext_driver.__main__ import make_parser
    from maxtext_driver.recipe import load_recipe
    from maxtext_driver.run_folder import RUN_NAME

    words = shlex.split(job(plan_with(**settings))["entrypoint"])
    assert words[:3] == ["python", "-m", "maxtext_driver"]
    options = make_parser().parse_args(words[3:])
    assert options.output == Path("/data")
    assert options.accelerator == "TPU-V6E"
    assert RUN_NAME.fullmatch(options.run)
    assert not options.dry_run
    assert {key: getattr(options, key) for key in expected} == expected
    load_recipe(options.recipe, options.overrides)


def test_the_code_is_laid_out_as_the_driver_runs_it(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_map = plans.named(plan, "tpu-maxtext-code").inputs
    (volume,) = job(plan)["submitterPodTemplate"]["spec"]["volumes"]
    for item in volume["configMap"]["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config_map["data"][item["key"]])
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "maxtext_driver"]:
        monkeypatch.delitem(sys.modules, name)
    from maxtext_driver import recipe as laid_out

    assert Path(str(laid_out.__file__)).is_relative_to(tmp_path)
    assert {"llama3-8b", "llama3-8b-tutorial"} <= set(laid_out.shipped_recipes())
    assert yaml.safe_load(job(plan)["runtimeEnvYAML"]) == {"working_dir": "/code"}


# What runs again, and what does not


@pytest.mark.parametrize("settings", [{"recipe": "llama3-8b-tutorial"}, {"dataset": "/data/mine/*.parquet"}])
def test_another_recipe_or_data_set_is_another_run(
    settings: dict[str, str], standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    plan = next_plan(**settings)
    assert plans.changes(plan) == {"tpu-maxtext-ray-job": "replace"}
    assert run_of(job(plan)) != run_of(job_of(standing))


def test_a_job_gives_the_slice_back_before_the_next_one_begins() -> None:
    with Rehearsal(STACK, {"waitForTraining": "true"}) as rehearsal:
        rehearsal.up()
        rehearsal.configure({"waitForTraining": "true", "recipe": "llama3-8b-tutorial"})
        steps = rehearsal.up().steps
    ended = [operation for operation, name in steps if name == "tpu-maxtext-ray-job"]
    assert ended.index("delete-replaced") < ended.index("create-replacement")


def test_another_capacity_replaces_the_slice_and_leaves_the_run_as_it_is(
    next_plan: Callable[..., Plan],
) -> None:
    assert plans.changes(next_plan(capacity_type="spot")) == {SLICE_POOL: "replace"}


def test_another_topology_is_another_slice_and_another_run(any_slice: str) -> None:
    with Rehearsal(STACK, {"recipe": any_slice}) as rehearsal:
        rehearsal.up()
        before = run_of(job_of(rehearsal))
        rehearsal.configure({"recipe": any_slice, "topology": "4x8"})
        assert set(plans.changes(rehearsal.preview())) == {SLICE_POOL, "tpu-maxtext-ray-job"}
        rehearsal.up()
        assert run_of(job_of(rehearsal)) != before


def job_of(rehearsal: Rehearsal) -> dict[str, Any]:
    (item,) = rehearsal.cloud.of_type("kubernetes:ray.io/v1:RayJob")
    return item.inputs["spec"]


def run_of(spec: dict[str, Any]) -> str:
    found = re.search(r"--run (\S+)", spec["entrypoint"])
    assert found
    return found[1]


# The end of a job


def test_the_outputs_are_commands_for_this_run(standing: Rehearsal) -> None:
    resources = standing.state()["deployment"]["resources"]
    run = run_of(job_of(standing))
    (said,) = [each["outputs"] for each in resources if each["type"] == "pulumi:pulumi:Stack"]
    assert "--location us-east5-b" in said["connect"]
    assert said["copyCheckpoints"].endswith(f"/{run}/checkpoints .")
    assert f"/{run}/metrics.jsonl" in said["readMetrics"]
