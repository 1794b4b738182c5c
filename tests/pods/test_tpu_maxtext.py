"""The stack tpu-maxtext with its trainer: KubeRay's operator, real Ray, the four hosts of a slice, or of two.

JAX computes on the CPU of each host. The slice is reserved by Ray as on TPUs, by what GKE tells its hosts.
"""

import re
import subprocess
from pathlib import Path

import pytest

from engine.project import ROOT
from rehearsal.control_plane.api import Object
from rehearsal.running_pods.stage import Stage
from rehearsal.running_pods.surroundings import Surroundings
from tests.pods.conftest import Play

STEPS, PERIOD = 30, 10  # on_a_cpu/sitecustomize.py
ENDS_WITHIN = 900.0  # seconds: four hosts of JAX take turns on two cores
MAKE_ROWS = "import pathlib, sys; from tiny import make_rows; make_rows(pathlib.Path(sys.argv[1]))"
DATA_SET = "me/rows"


@pytest.fixture(scope="module")
def stage(play: Play, around: Surroundings, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stack that trains on text, undisturbed."""
    rows = tmp_path_factory.mktemp("rows")
    python = ROOT / ".venv-maxtext/bin/python"
    if not python.exists():
        pytest.skip("the image maxtext is made of .venv-maxtext: make .venv-maxtext/.ready")
    subprocess.run([python, "-c", MAKE_ROWS, rows], cwd=ROOT / "tests/maxtext", check=True)
    around.hub.data_set(DATA_SET).push(rows)
    return training(play)


def training(play: Play, **settings: str) -> Stage:
    stage = play("tpu-maxtext", dataset=f"hf://datasets/{DATA_SET}/rows-*.parquet", **settings)
    stage.stack.up()
    return stage


def ends_well(stage: Stage) -> dict[int, float]:
    """Waits for the end of the job, and returns the losses."""
    assert stage.waits_for("the end of the job", stage.outcome, ENDS_WITHIN).startswith("Complete")
    assert (stage.run() / "COMPLETE.json").exists()
    return stage.losses()


def checkpoints(run: Path) -> set[int]:
    """The steps, counted from 0, after which the run has saved."""
    return {int(folder.name) for folder in (run / "checkpoints").glob("*") if folder.name.isdigit()}


def hosts(stage: Stage) -> list[Object]:
    return stage.api.list("v1", "Pod", labels={"ray.io/node-type": "worker"})


@pytest.fixture(scope="module")
def undisturbed(stage: Stage) -> dict[int, float]:
    """The losses of a run to which nothing happens."""
    losses = ends_well(stage)
    assert checkpoints(stage.run()) == {STEPS - PERIOD, STEPS - 1}
    return losses


@pytest.mark.slow
def test_the_slice_trains_every_step_and_the_ray_cluster_goes(
    stage: Stage, undisturbed: dict[int, float]
) -> None:
    assert list(undisturbed) == list(range(1, STEPS + 1))
    stage.waits_for("the cluster to go", lambda: not stage.api.list("ray.io/v1", "RayCluster"))


@pytest.mark.slow
def test_a_lost_host_has_all_replaced_and_the_run_goes_on_from_the_step_that_was_saved(
    play: Play, undisturbed: dict[int, float]
) -> None:
    stage = training(play)
    stage.waits_for("a checkpoint", lambda: checkpoints(stage.run()) - {0}, ENDS_WITHIN)
    before = hosts(stage)
    stage.api.delete(before[-1], ended=True)
    losses = ends_well(stage)
    # MaxText says the figures of a step after the next one: those of the step that was saved may be lost.
    assert set(undisturbed) - set(losses) <= {PERIOD + 1}
    assert losses == pytest.approx({step: undisturbed[step] for step in losses}, abs=1e-5)
    assert begun(stage) == [0, PERIOD + 1]
    assert not {pod["metadata"]["name"] for pod in before} & {pod["metadata"]["name"] for pod in hosts(stage)}


@pytest.mark.slow
def test_a_slice_that_is_lost_alone_comes_back_and_the_run_goes_on_on_both(
    play: Play, undisturbed: dict[int, float]
) -> None:
    """Two slices of two hosts have the batch of one slice of four."""
    stage = training(play, tpuVersion="v5p", topology="2x2x2", slices="2")
    stage.waits_for("a checkpoint", lambda: checkpoints(stage.run()) - {0}, ENDS_WITHIN)
    lost, kept = slices(stage)["1"], slices(stage)["0"]
    assert (len(lost), len(kept)) == (2, 2)
    for pod in lost:
        stage.api.delete(pod, ended=True)
    losses = ends_well(stage)
    assert set(undisturbed) - set(losses) <= {PERIOD + 1}
    assert losses == pytest.approx({step: undisturbed[step] for step in losses}, abs=1e-5)
    assert begun(stage) == [0, PERIOD + 1]


def slices(stage: Stage) -> dict[str, list[Object]]:
    """The hosts of each slice, by KubeRay's number of it."""
    by_number: dict[str, list[Object]] = {}
    for pod in hosts(stage):
        by_number.setdefault(pod["metadata"]["labels"]["ray.io/worker-group-replica-index"], []).append(pod)
    return by_number


def begun(stage: Stage) -> list[int]:
    """The steps that its workers have begun from."""
    labels = {"batch.kubernetes.io/job-name": stage.now()["metadata"]["name"]}
    (submitter,) = stage.api.list("v1", "Pod", labels=labels)
    return [int(step) for step in re.findall(r"training from step (\d+) ", stage.kubelet.log(submitter))]
