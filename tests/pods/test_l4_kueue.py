"""The stack l4-kueue with trainers and servers: tutorial 002's demonstration."""

import json

import pytest

from rehearsal.control_plane.api import Object, is_true
from rehearsal.running_pods.demonstration import share, trainers
from rehearsal.running_pods.recording import Recording
from rehearsal.running_pods.stage import Stage
from tests.pods.conftest import Play

COMPLETE = "Complete CompletionsReached"


def test_serving_takes_the_gpus_of_a_fine_tune_which_saves_and_goes_on_as_if_nothing_had_happened(
    play: Play,
) -> None:
    stage = play("l4-kueue")
    with Recording(stage) as recording:
        stage.stack.up()
        steps = share(stage)
        next(steps)
        first = names(trainers(stage))
        assert len(first) == 2
        next(steps)
        next(steps)
        saved = stage.saved()
        assert saved, "the stop has saved nothing"  # periods save nothing here
        assert [recording.ending(name) for name in first] == ["exit 143", "exit 143"]
        assert not (stage.run() / "COMPLETE.json").exists()
        next(steps)
        undisturbed = train_undisturbed(stage)
        next(steps)
        second = names(trainers(stage))
        assert not {*first} & {*second}
        assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    assert [recording.ending(name) for name in second] == ["exit 0", "exit 0"]
    assert any(f"processes, from step {saved}\n" in stage.kubelet.log(pod) for pod in trainers(stage))
    assert list(undisturbed) == list(range(1, len(undisturbed) + 1))
    assert len(undisturbed) > saved
    assert stage.losses(argument(stage.training, "--run=")) == pytest.approx(undisturbed, abs=1e-5)
    serve_the_result(stage)


def serve_the_result(stage: Stage) -> None:
    """Serves the adapter on the base model that its run has put into the bucket."""
    stage.stack.configure({"serve": "run"})
    stage.stack.up()
    (server,) = stage.stack.cloud.of_type("kubernetes:apps/v1:Deployment")
    base, *arguments = server.inputs["spec"]["template"]["spec"]["containers"][0]["args"]
    folder = stage.around.buckets.folder / base.removeprefix("gs://")
    assert folder.parts[-5:-2] == ("weights", "google", "gemma-3-4b-it")
    assert (folder / "model.safetensors").is_file()
    assert "--enable-lora" in arguments and "--load-format=runai_streamer" in arguments


def train_undisturbed(stage: Stage) -> dict[int, float]:
    """The losses of the same Job outside of the queue, on nodes of the system: nothing happens to it."""
    text = json.dumps(stage.training).replace(argument(stage.training, "--run="), "undisturbed")
    job = json.loads(text.replace(stage.training["metadata"]["name"], "undisturbed"))
    del job["metadata"]["labels"]
    pod = job["spec"]["template"]["spec"]
    del pod["nodeSelector"], pod["containers"][0]["resources"]
    stage.api.apply(job)
    stage.waits_for("the undisturbed Job", lambda: is_true(stage.api.get(job), "Complete"))
    losses = stage.losses("undisturbed")
    stage.api.delete(job)
    stage.waits_for("it to go", lambda: stage.api.get(job) is None)
    return losses


def argument(job: Object, name: str) -> str:
    """What follows a name in the arguments of the trainer."""
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    (value,) = [argument.removeprefix(name) for argument in arguments if argument.startswith(name)]
    return value


def names(pods: list[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
