"""What happens to a training while it runs: serving takes its GPUs, or it loses a node."""

from collections.abc import Iterator

from rehearsal.control_plane.api import Object, is_true
from rehearsal.running_pods.stage import Stage


def share(stage: Stage) -> Iterator[str]:
    """Tutorial 002: scales serving up in the middle of the training, and down again.

    Yields a sentence for every step. The stack l4-kueue is up, with one server.
    """
    stage.waits_for("the first steps", stage.losses)
    yield f"one server runs, the fine-tune trains in {len(trainers(stage))} pods"
    _serve(stage, 2)
    stage.waits_for("the Job to be suspended", lambda: stage.now()["spec"]["suspend"])
    yield "serving is scaled to 2: Kueue suspends the fine-tune, whose pods are told to end"
    stage.waits_for("the pods to end", lambda: not trainers(stage))
    yield f"step {stage.saved()} is saved, the GPUs are free"
    stage.waits_for("two servers", lambda: servers(stage) == 2)
    yield "two servers run"
    _serve(stage, 1)
    stage.waits_for("the Job to go on", lambda: len(trainers(stage)) == stage.now()["spec"]["parallelism"])
    yield "serving is scaled to 1: Kueue lets the fine-tune go on"


def lose_a_node(stage: Stage) -> Iterator[str]:
    """Takes one of several nodes away in the middle of the training. Yields a sentence for every step."""
    stage.waits_for("a checkpoint", stage.saved)
    pods = trainers(stage)
    yield f"the training runs on {len(pods)} nodes and has saved step {stage.saved()}"
    stage.kubelet.lose(stage.node_of(pods[-1]))
    before = {pod["metadata"]["uid"] for pod in pods}
    yield "one node is lost"
    stage.waits_for("a new pod", lambda: any(pod["metadata"]["uid"] not in before for pod in trainers(stage)))
    yield f"the pods start again, from step {stage.saved()}"


def trainers(stage: Stage) -> list[Object]:
    """The pods of the fine-tune."""
    label, name = "batch.kubernetes.io/job-name", stage.training["metadata"]["name"]
    return [pod for pod in stage.pods() if pod["metadata"]["labels"].get(label) == name]


def servers(stage: Stage) -> int:
    """The number of servers that answer."""
    return sum(
        pod["metadata"]["labels"].get("app") == "serving" and is_true(pod, "Ready") for pod in stage.pods()
    )


def _serve(stage: Stage, replicas: int) -> None:
    """Sets the number of servers in the configuration, and runs `up`."""
    stage.stack.configure({"servingReplicas": str(replicas)})
    stage.stack.up()
