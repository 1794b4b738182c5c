"""The stack's own demonstration: serving takes the fine-tune's GPUs and gives them back."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal import Rehearsal
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import until
from rehearsal.control_plane.kwok import FINISH
from tests import plans
from tests.control_plane.demonstration import Demonstration

ROOT = Path(__file__).parent.parent.parent
TRAINING = ROOT / ".venv-training" / "bin" / "python"
SERVING_ALONE, ONE_SERVER, TWO_SERVERS = "4", "1", "2"
# Loading the libraries takes half a minute on a busy machine.
STARTED = 240.0


@pytest.fixture
def stack(plane: ControlPlane) -> Iterator[Rehearsal]:
    with Rehearsal("l4-kueue", {"imageUri": plans.IMAGE}, plane=plane) as rehearsal:
        yield rehearsal


def ask_for(rehearsal: Rehearsal, replicas: str) -> None:
    rehearsal.configure({"imageUri": plans.IMAGE, "servingReplicas": replicas})
    rehearsal.up()


def shown(rehearsal: Rehearsal, plane: ControlPlane) -> Demonstration:
    (job,) = rehearsal.cloud.of_type("kubernetes:batch/v1:Job")
    return Demonstration(
        api=plane.api, namespace="llm", deployment="serving", job=job.inputs["metadata"]["name"]
    )


def test_serving_takes_the_fine_tunes_gpus_and_gives_them_back(stack: Rehearsal, plane: ControlPlane) -> None:
    ask_for(stack, SERVING_ALONE)
    scene = shown(stack, plane)
    scene.comes_to(scene.servers, (3, 1))
    for replicas, servers, training in (
        (ONE_SERVER, (1, 0), (False, 2, 2)),
        (TWO_SERVERS, (2, 0), (True, 0, 0)),
        (ONE_SERVER, (1, 0), (False, 2, 2)),
    ):
        ask_for(stack, replicas)
        scene.comes_to(scene.servers, servers)
        scene.comes_to(scene.training, training)
        assert stack.preview().changed == 0
    stack.destroy()
    assert stack.cloud.items == []


class Trainee:
    """The real training code on a tiny model, started and stopped as the pods of the Job are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        paths = (ROOT / "workloads", ROOT / "tests" / "workloads")
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(directory / "home"),
            "TMPDIR": str(directory),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        script = ROOT / "tests" / "workloads" / "trainee.py"
        return subprocess.Popen(
            [TRAINING, script, self.directory, *arguments], env=self._environment, stdout=subprocess.DEVNULL
        )

    def losses(self, run: str) -> list[float]:
        lines = (self.directory / run / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line) for line in lines if "loss" in json.loads(line)]
        assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
        return [step["loss"] for step in steps]


@pytest.mark.skipif(not TRAINING.is_file(), reason=f"the training environment {TRAINING} is not there")
def test_the_fine_tune_goes_on_where_serving_stopped_it_with_the_losses_of_an_undisturbed_run(
    stack: Rehearsal, plane: ControlPlane, tmp_path: Path
) -> None:
    trainee = Trainee(tmp_path)
    assert trainee.start("make").wait(STARTED) == 0
    undisturbed = trainee.start("train", "undisturbed")

    ask_for(stack, ONE_SERVER)
    scene = shown(stack, plane)
    scene.comes_to(scene.training, (False, 2, 2))
    assert undisturbed.wait(STARTED) == 0

    first = trainee.start("train", "mine", "4")
    until(lambda: "step 4", lambda: (tmp_path / "held").exists() or first.poll() is not None, STARTED)
    ask_for(stack, TWO_SERVERS)
    scene.comes_to(scene.training, (True, 0, 0))
    first.terminate()
    assert first.wait(STARTED) == 143
    assert not (tmp_path / "mine" / "COMPLETE.json").exists()

    ask_for(stack, ONE_SERVER)
    scene.comes_to(scene.training, (False, 2, 2))
    assert trainee.start("train", "mine").wait(STARTED) == 0
    for pod in scene.pods({"batch.kubernetes.io/job-name": scene.job}):
        scene.api.patch(pod, {"metadata": {"annotations": {FINISH: "succeeded"}}})
    scene.comes_to(scene.ended, True)

    assert trainee.losses("mine") == pytest.approx(trainee.losses("undisturbed"), abs=1e-5)
    stack.destroy()
    assert stack.cloud.items == []
