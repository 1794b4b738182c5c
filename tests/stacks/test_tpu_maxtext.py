"""What settings make of the tpu-maxtext stack, on the real engine. Its plan as it is: tests/inventories."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud.nodes import node_labels
from engine.plan import Plan
from rehearsal.session import Rehearsal
from tests import plans
from workloads.maxtext.maxtext_driver import recipe

STACK = "tpu-maxtext"
ROOT = Path(__file__).parent.parent.parent
MAXTEXT = ROOT / "workloads" / "maxtext"
SLICE_POOL = "tpu-maxtext-slice-pool"


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
    ("settings", "machine", "hosts"),
    [
        ({"topology": "2x4"}, "ct6e-standard-8t", 1),
        ({"topology": "4x4"}, "ct6e-standard-4t", 4),
        ({"topology": "8x8"}, "ct6e-standard-4t", 16),
        ({"topology": "4x4", "tpuVersion": "v5e", "gcp:region": "us-west4"}, "ct5lp-hightpu-4t", 4),
        ({"topology": "2x2x4", "tpuVersion": "v5p"}, "ct5p-hightpu-4t", 4),
    ],
)
def test_the_pool_and_its_workers_are_the_slice_of_the_settings(
    settings: dict[str, str], machine: str, hosts: int, any_slice: str, plan_with: Callable[..., Plan]
) -> None:
    plan, topology = plan_with(recipe=any_slice, **settings), settings["topology"]
    pool = slice_pool(plan)
    assert (pool["nodeConfig"]["machineType"], pool["nodeCount"]) == (machine, hosts)
    assert "autoscaling" not in pool
    policy = {"type": "COMPACT", "tpuTopology": topology} if hosts > 1 else None
    assert pool.get("placementPolicy") == policy
    (group,) = ray_cluster(plan)["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 1)
    assert group["numOfHosts"] == hosts
    assert group["template"]["spec"]["nodeSelector"] == node_labels(pool)


@pytest.mark.parametrize(("slices", "settings"), [(2, {}), (3, {"capacity_type": "flexStart"})])
def test_each_slice_is_a_node_pool_and_a_replica_of_ray(
    slices: int, settings: dict[str, str], plan_with: Callable[..., Plan]
) -> None:
    one, plan = plan_with(**settings), plan_with(slices=str(slices), **settings)
    pools = [
        pool.inputs for pool in plans.of_type(plan, "container/nodePool:NodePool") if "-slice" in pool.name
    ]
    assert pools == [slice_pool(plan)] * slices
    for key in ("nodeCount", "autoscaling", "placementPolicy", "nodeLocations"):
        assert slice_pool(plan).get(key) == slice_pool(one).get(key)
    names = {resource.name for resource in plan.resources} - {resource.name for resource in one.resources}
    others = {f"tpu-maxtext-slice-{number}" for number in range(2, slices + 1)}
    assert names == others | {f"{name}-pool" for name in others}
    (group,), (group_of_one,) = (ray_cluster(declared)["workerGroupSpecs"] for declared in (plan, one))
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), slices)
    assert {**group, "template": {}} == {**group_of_one, **counts, "template": {}}
    assert dollars(group) == pytest.approx(slices * dollars(group_of_one), abs=0.001)
    assert run_of(job(plan)) != run_of(job(one))


def dollars(group: dict[str, Any]) -> float:
    """The price of an hour that the workers log."""
    (container,) = group["template"]["spec"]["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    return float(variables["RUN_DOLLARS_PER_HOUR"]["value"].removeprefix("over "))


def test_slices_come_and_go_without_the_first(standing: Rehearsal, next_plan: Callable[..., Plan]) -> None:
    second = {"tpu-maxtext-slice-2": "create", "tpu-maxtext-slice-2-pool": "create"}
    assert plans.changes(next_plan(slices="2")) == {**second, "tpu-maxtext-ray-job": "replace"}


def test_cluster_and_nodes_are_in_the_zone_of_the_slice(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with(zone="us-east5-a")
    cluster = plans.named(plan, "tpu-maxtext-cluster").inputs
    assert cluster["location"] == "us-east5-a" and "nodeLocations" not in cluster
    for pool in plans.of_type(plan, "container/nodePool:NodePool"):
        assert (pool.inputs["location"], pool.inputs["nodeLocations"]) == ("us-east5-a", ["us-east5-a"])


@pytest.mark.parametrize(
    ("settings", "region"),
    [
        # The stack's own region, us-east5, refuses new projects.
        ({}, "us-central1"),
        ({"buildRegion": "us-east5"}, "us-east5"),
        ({"gcp:region": "us-central1", "zone": "us-central1-b"}, "us-central1"),
    ],
)
def test_the_image_is_built_where_new_projects_may_build_and_kept_beside_the_slice(
    settings: dict[str, str], region: str
) -> None:
    plan = plans.previewed("tpu-maxtext", settings)
    assert plans.only(plan, "cloudbuild:Build").inputs["location"] == region
    (repository,) = plans.of_type(plan, ":Repository")
    assert repository.inputs["location"] == settings.get("gcp:region", "us-east5")


def test_flex_start_makes_the_whole_slice_when_pods_ask_for_it(plan_with: Callable[..., Plan]) -> None:
    pool = slice_pool(plan_with(capacity_type="flexStart"))
    assert "nodeCount" not in pool
    assert pool["autoscaling"] == {"minNodeCount": 0, "maxNodeCount": 4}
    assert pool["nodeConfig"]["flexStart"] is True
    assert pool["nodeConfig"]["maxRunDuration"] == "604800s"
    assert pool["management"]["autoRepair"] is False


# The token


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
        (
            {},
            {
                "recipe": "llama3-8b",
                "workers": 4,
                "topology": "4x4",
                "accelerator": "TPU-V6E",
                "slices": 1,
                "overrides": [],
            },
        ),
        (
            {"tpuVersion": "v5p", "topology": "2x2x4"},
            {"workers": 4, "topology": "2x2x4", "accelerator": "TPU-V5P"},
        ),
        ({"slices": "2"}, {"workers": 8, "topology": "4x4", "slices": 2}),
        ({"recipe": "llama3-8b-tutorial"}, {"recipe": "llama3-8b-tutorial"}),
        ({"run": "my-first", "maxRunHours": "9"}, {"run": "my-first", "max_run_hours": 9}),
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
    assert RUN_NAME.fullmatch(options.run)
    assert not options.dry_run
    assert {key: getattr(options, key) for key in expected} == expected
    load_recipe(options.recipe, options.overrides)


def test_the_job_runs_in_the_folder_of_its_code(plan: Plan) -> None:
    submitter = job(plan)["submitterPodTemplate"]["spec"]
    (mount,) = (mount for mount in submitter["containers"][0]["volumeMounts"] if mount["name"] == "code")
    assert yaml.safe_load(job(plan)["runtimeEnvYAML"]) == {"working_dir": mount["mountPath"]}


def test_the_code_runs_as_it_is_laid_out(plan: Plan, tmp_path: Path) -> None:
    texts = plans.named(plan, "tpu-maxtext-code").inputs["data"]
    volumes = job(plan)["submitterPodTemplate"]["spec"]["volumes"]
    (volume,) = (volume for volume in volumes if "configMap" in volume)
    for item in volume["configMap"]["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[item["key"]])
    program = (
        "from maxtext_driver import __main__, recipe; "
        "print(__main__.__file__, recipe.load_recipe('llama3-8b').steps, *recipe.RECIPES.iterdir())"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True).split()
    package = tmp_path / "maxtext_driver"
    assert printed == [str(package / "__main__.py"), "100", str(package / "recipes" / "llama3-8b.yaml")]


# What runs again, and what does not


@pytest.mark.parametrize("settings", [{"recipe": "llama3-8b-tutorial"}, {"dataset": "/data/mine/*.parquet"}])
def test_another_recipe_or_data_set_is_another_run(
    settings: dict[str, str], standing: Rehearsal, next_plan: Callable[..., Plan]
) -> None:
    plan = next_plan(**settings)
    assert plans.changes(plan) == {"tpu-maxtext-code": "replace", "tpu-maxtext-ray-job": "replace"}
    assert run_of(job(plan)) != run_of(job_of(standing))


def test_a_job_gives_the_slice_back_before_the_next_one_begins() -> None:
    with Rehearsal(STACK, {"waitForTraining": "true"}) as rehearsal:
        rehearsal.up()
        rehearsal.configure({"waitForTraining": "true", "recipe": "llama3-8b-tutorial"})
        steps = rehearsal.up().steps
    ended = [operation for operation, name in steps if name == "tpu-maxtext-ray-job"]
    assert ended.index("delete-replaced") < ended.index("create-replacement")


@pytest.mark.parametrize(("old", "others"), [("4x4", ("4x8", "2x4")), ("2x2", ("2x4",))])
def test_another_topology_is_another_slice_and_another_run(
    any_slice: str, old: str, others: tuple[str, ...]
) -> None:
    with Rehearsal(STACK, {"recipe": any_slice, "topology": old}) as rehearsal:
        rehearsal.up()
        before = run_of(job_of(rehearsal))
        for new in others:
            rehearsal.configure({"recipe": any_slice, "topology": new})
            plan = rehearsal.preview()
            assert plans.changes(plan) == {SLICE_POOL: "replace", "tpu-maxtext-ray-job": "replace"}
            assert run_of(job(plan)) != before


def job_of(rehearsal: Rehearsal) -> dict[str, Any]:
    (item,) = rehearsal.cloud.of_type("kubernetes:ray.io/v1:RayJob")
    return item.inputs["spec"]


def run_of(spec: dict[str, Any]) -> str:
    match = re.search(r"--run (\S+)", spec["entrypoint"])
    assert match
    return match[1]


# The end of a job


def test_the_outputs_are_commands_for_this_run(standing: Rehearsal) -> None:
    run, outputs = run_of(job_of(standing)), plans.outputs(standing)
    assert "--location us-east5-b" in outputs["connect"]
    assert outputs["copyCheckpoints"].endswith(f"/{run}/checkpoints .")
    assert f"/{run}/metrics.jsonl" in outputs["readMetrics"]


def test_a_result_that_cannot_be_served_has_no_command() -> None:
    """Without published weights there is no tokenizer, and the run exports nothing."""
    assert "serveRun" not in plans.outputs(plans.standing("tpu-maxtext"))


def test_gke_reads_what_the_chips_do_from_the_workers_port() -> None:
    (group,) = job(plans.shipped("tpu-maxtext"))["rayClusterSpec"]["workerGroupSpecs"]
    ports = group["template"]["spec"]["containers"][0]["ports"]
    assert {port["containerPort"] for port in ports} >= {8001, 8431}
