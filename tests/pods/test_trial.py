"""The trial of a recipe before its training: a Job with the image and the code of the training."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.running_pods.stage import Stage
from tests.control_plane.test_status import look
from tests.pods.conftest import Play

# No text goes through the layers of the vision tower. Neither settings nor a dry run see that.
NO_TEXT = '{"lora": {"target_modules": ".*vision.*q_proj"}}'
REASON = (
    "model google/gemma-3-12b-it: a run would fail when it has to train a step: RuntimeError: element "
    "0 of tensors does not require grad and does not have a grad_fn; look at lora.target_modules"
)


def containers(stage: Stage) -> list[str]:
    """The first containers of all pods, the oldest first."""
    return [pod["spec"]["containers"][0]["name"] for pod in stage.pods()]


def test_a_recipe_that_cannot_train_ends_up_before_accelerators_are_asked_for(play: Play) -> None:
    stage = play("a4-accelerate", trial="true", recipeSet=NO_TEXT)
    with pytest.raises(RehearsalError, match=r"failed with exit code 2 matching FailJob rule") as failure:
        stage.stack.up()
    assert f"error: {REASON}" in " ".join(str(failure.value).split()), str(failure.value)
    assert containers(stage) == ["trial"]
    (pod,) = [line for line in look(stage.stack, stage.plane).lines if line.kind == "pod"]
    assert pod.why and pod.why.text.startswith(f"the run would fail: {REASON}")


@pytest.mark.slow
def test_a_recipe_that_passes_is_trained_then(play: Play) -> None:
    stage = play("a4-accelerate", trial="true")
    stage.stack.up()
    stage.waits_for("a pod that trains", lambda: containers(stage) == ["trial", "finetune"])
    assert "passed its trial" in stage.kubelet.log(stage.pods()[0])
    assert stage.stack.preview().changed == 0
