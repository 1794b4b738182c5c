"""The stack cloudrun-vllm with its trainer and its server: a job, a bucket, a service."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.project import ROOT
from rehearsal.errors import RehearsalError
from rehearsal.running_pods.instance import Instance
from rehearsal.running_pods.stage import CloudRunStage
from tests import plans

MODEL = "google/gemma-3-1b-it"
LOAD = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], local_files_only=True)
words = AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)("soft wool", return_tensors="pt")
assert model(**words).logits.isfinite().all()
"""


def kill(stage: CloudRunStage) -> None:
    """Kills the trainer after its first checkpoint."""
    stage.waits_for("a checkpoint", stage.saved)
    tries(stage)[-1].kill()


def tries(stage: CloudRunStage) -> list[Instance]:
    """All tries of the training."""
    return [
        instance for instance in stage.cloud_run.instances if "-task0-" in instance.tree["metadata"]["name"]
    ]


def test_a_training_that_failed_is_run_again_and_a_finished_one_is_not(cloud_run: CloudRunStage) -> None:
    stage = cloud_run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.around.hub.model(MODEL), "gated", True)
        failed = "has failed: Task .*-task0 failed with message: The container exited with an error"
        with pytest.raises(RehearsalError, match=failed):
            stage.stack.up()
    assert stage.outcome().startswith("Failed")
    assert len(tries(stage)) == 3
    assert all(
        f"accept its licence at https://huggingface.co/{MODEL}" in instance.log() for instance in tries(stage)
    )

    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill, stage)
        stage.stack.up()
        killed.result()
    assert stage.outcome() == "Complete"
    _, again = tries(stage)[3:]
    steps = list(stage.losses())
    assert steps == list(range(1, len(steps) + 1))
    assert f"step 1/{len(steps)}" not in again.log()
    run = stage.run()
    assert (run / "COMPLETE.json").exists()
    subprocess.run([ROOT / ".venv-training/bin/python", "-c", LOAD, run / "model"], check=True)

    serving = stage.cloud_run.instances[-1]
    assert serving.status["ready"]
    assert plans.outputs(stage.stack)["url"]
    before = list(stage.cloud_run.instances)
    assert not stage.stack.up().changed
    assert stage.cloud_run.instances == before
