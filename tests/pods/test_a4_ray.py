"""The stack a4-ray with its trainer: KubeRay's operator, Ray's head and two workers, the submitter.

Trainings beside the stack's own are other runs of the same command, all but the last on its Ray cluster.
"""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Object
from rehearsal.control_plane.readiness import has_ended
from rehearsal.pods.container import Process
from rehearsal.running_pods.stage import TIMEOUT, Stage
from rehearsal.running_pods.surroundings import Surroundings
from tests import plans
from tests.pods.conftest import without_trial
from tests.prometheus import Prometheus, charts, cluster_of, port_of, scrape_config

STEPS = 24  # on_a_cpu/sitecustomize.py
# A training with these options saves neither at its end nor on its period.
ENDLESS = ("--set=training.epochs=9999", "--set=training.save_every_steps=9999")
WORKERS, RAY_PORT = 2, 8080
MONITORING: Object = {
    "apiVersion": "monitoring.googleapis.com/v1",
    "kind": "PodMonitoring",
    "metadata": {"name": "training", "namespace": "ray"},
}
SAVE_OFTEN = "--set=training.save_every_steps=6"


class Training:
    """A RayJob with a run of its own, on the Ray cluster of the stack's.

    Args:
        stage: The stage.
        tree: The RayJob.
        run: The run's name.
    """

    def __init__(self, stage: Stage, tree: Object, run: str) -> None:
        self._stage, self.tree, self.run = stage, tree, run

    def status(self) -> Object:
        """What the operator says of it."""
        return (self._stage.api.get(self.tree) or {}).get("status") or {}

    def pods(self, role: str) -> list[Object]:
        """Pods of its Ray cluster that nobody has deleted."""
        labels = {"ray.io/cluster": self.status()["rayClusterName"], "ray.io/node-type": role}
        pods = self._stage.api.list("v1", "Pod", labels=labels)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def begun(self) -> list[int]:
        """The steps that its workers have begun from.

        A container that starts again in its pod finds the logs of the one before, and Ray shows them again.
        """
        lines = dict.fromkeys(re.findall(r"pid=.* processes, from step \d+", self.log()))
        return [int(line.split()[-1]) for line in lines]

    @property
    def folder(self) -> Path:
        """Its run in the bucket."""
        return self._stage.run().parent / self.run

    def log(self) -> str:
        """What its submitters have printed, which is what its driver and its workers print."""
        label, name = "batch.kubernetes.io/job-name", self.tree["metadata"]["name"]
        submitters = [pod for pod in self._stage.pods() if pod["metadata"]["labels"].get(label) == name]
        return "".join(map(self._stage.kubelet.log, submitters))

    def losses(self) -> dict[int, float]:
        """The loss of each of the first steps, the last one said of each."""
        file = self.folder / "metrics.jsonl"
        lines = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        return {line["step"]: line["loss"] for line in lines if "loss" in line and line["step"] <= STEPS}

    def checkpoints(self) -> list[int]:
        """Steps that have been saved completely and are kept."""
        return sorted(
            int(marker.parent.name.split("-")[1]) for marker in self.folder.glob("checkpoint-*/COMPLETE.json")
        )

    def comes_to(self, step: int) -> None:
        """Waits until it has trained so far."""
        self.waits_for(f"step {step} of {self.run}", lambda: max(self.losses(), default=0) >= step)

    def ends(self) -> str:
        """Waits for its end: `jobStatus`."""
        self.waits_for(f"the end of {self.run}", lambda: has_ended({"status": self.status()}))
        return self.status()["jobStatus"]

    def kill(self, role: str) -> None:
        """Kills the process of its head or of its first worker, which begins again in its pod."""
        self._process(role).signal(signal.SIGKILL)

    def fail(self) -> None:
        """Kills its driver."""
        assert self._process("head").execute(["pkill", "-KILL", "-f", "^python -m finetune ray"], TIMEOUT)

    def stop(self) -> None:
        """Stops it as somebody does who has a shell on the head."""
        command = ["ray", "job", "stop", "--address=http://127.0.0.1:8265", self.status()["jobId"]]
        assert self._process("head").execute(command, TIMEOUT)

    def _process(self, role: str) -> Process:
        pod = self._stage.kubelet.pod(self.pods(role)[0]["metadata"]["name"])
        assert pod
        return pod.process(f"ray-{role}")

    def waits_for(self, what: str, ask: Callable[[], object]) -> None:
        """Waits until an answer is true."""
        try:
            self._stage.waits_for(what, ask)
        except Exception as error:
            error.add_note(f"{self.status()}\n{self.log()[-3000:]}")
            raise


class Ray:
    """The stack's training, and more on its Ray cluster, which stays until the last one has ended.

    Args:
        stage: A stage whose stack is up.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._command = stage.training["spec"]["entrypoint"]
        (self._run,) = re.findall(r"--run (\S+)", self._command)
        self.first = Training(stage, stage.training, self._run)
        self.stay(3600)

    def stay(self, seconds: int) -> None:
        """How long the Ray cluster stays once the stack's training has ended."""
        self.stage.api.patch(self.stage.training, {"spec": {"ttlSecondsAfterFinished": seconds}})

    def again(self, run: str, *options: str, own: bool = False) -> Training:
        """Starts the same command as another run, on the Ray cluster that is there or on one of its own."""
        tree = self.stage.training
        spec = {**tree["spec"], "entrypoint": " ".join([self._command.replace(self._run, run), *options])}
        if not own:
            for key in ("rayClusterSpec", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"):
                del spec[key]
            cluster = self.first.status()["rayClusterName"]
            spec |= {"clusterSelector": {"ray.io/cluster": cluster}, "backoffLimit": 0}
        metadata = {"name": run, "namespace": tree["metadata"]["namespace"]}
        started = {"apiVersion": tree["apiVersion"], "kind": "RayJob", "metadata": metadata, "spec": spec}
        self.stage.api.create(started)
        return Training(self.stage, started, run)

    def end(self, training: Training) -> None:
        """Deletes a training, which the operator has Ray stop."""
        self.stage.api.delete(training.tree)
        self.stage.waits_for(f"{training.run} to go", lambda: not self.stage.api.get(training.tree))

    def shut_down(self) -> None:
        """Waits until the operator has taken the Ray cluster away, the first training having ended."""
        self.first.ends()
        self.stay(0)
        workers = {"ray.io/node-type": "worker"}
        self.stage.waits_for("no Ray cluster", lambda: not self.stage.api.list("ray.io/v1", "RayCluster"))
        self.stage.waits_for("no workers", lambda: not self.stage.api.list("v1", "Pod", labels=workers))


@pytest.fixture(scope="module")
def ray(plane: ControlPlane, around: Surroundings, hosts: Path) -> Iterator[Ray]:
    """The stack. After the tests it is destroyed, and nothing is left."""
    with Stage("a4-ray", without_trial("a4-ray"), plane, around, hosts) as stage:
        stage.stack.up()
        ray = Ray(stage)
        yield ray
        ray.shut_down()
        assert not stage.kubelet.refused(), "network policies have refused what Ray needs"
        stage.stack.remove()
        assert stage.stack.cloud.items == []
        assert stage.stack.cluster and stage.stack.cluster.left() == []


@pytest.fixture(scope="module")
def unanswered(ray: Ray, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the dashboard asks about trainer and Ray, and Prometheus does not know while the job trains."""
    plan, api = plans.standing_plan(ray.stage.stack), ray.stage.api
    ray.first.waits_for("its Ray cluster", lambda: ray.first.status().get("rayClusterName"))
    ray.first.waits_for("its workers", lambda: len(_addresses(ray.first.pods("worker"))) == WORKERS)
    workers, cluster = ray.first.pods("worker"), cluster_of(plan)
    monitoring = api.get(MONITORING)
    assert monitoring
    ports = {port_of(pod, monitoring) for pod in workers}
    trainers = {name: f"{address}:{port}" for name, address in _addresses(workers).items() for port in ports}
    nodes = {name: f"{address}:{RAY_PORT}" for name, address in _addresses(workers).items()}
    # GKE's add-on collects Ray's own metrics, in the same way.
    of_ray = {**monitoring, "metadata": {**monitoring["metadata"], "name": "ray"}}
    jobs = [scrape_config(api, monitoring, trainers, cluster), scrape_config(api, of_ray, nodes, cluster)]
    queries = [query for queries in charts(plan).values() for query in queries]
    asked = [query for query in queries if re.search(r"\b(ray|training)_", query)]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as prometheus:
        # Loading a trainer's libraries takes a slow machine more than a minute.
        ray.first.waits_for("the metrics of its trainers", lambda: prometheus.query("training_loss"))
        return [query for query in asked if not prometheus.knows(query)]


def _addresses(pods: list[Object]) -> dict[str, str]:
    """The addresses of the pods that have one, by name."""
    every = {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in pods}
    return {name: address for name, address in every.items() if address}


@pytest.fixture(scope="module")
def undisturbed(ray: Ray, unanswered: list[str]) -> Training:
    """The stack's own training, at its end."""
    ray.first.ends()
    return ray.first


def test_prometheus_answers_what_the_dashboard_asks(unanswered: list[str]) -> None:
    assert unanswered == []


def test_the_job_trains_to_its_end_and_leaves_an_adapter(undisturbed: Training) -> None:
    assert undisturbed.ends() == "SUCCEEDED"
    assert (undisturbed.folder / "COMPLETE.json").exists()
    assert (undisturbed.folder / "adapter/adapter_model.safetensors").exists()
    assert list(undisturbed.losses()) == list(range(1, STEPS + 1))
    assert all(f"step {step}/{STEPS} " in undisturbed.log() for step in range(1, STEPS + 1))


@pytest.fixture(scope="module")
def restarted(undisturbed: Training, ray: Ray) -> Iterator[Training]:
    """A training without an end whose worker has been killed, come again and trained as far as the other.

    The tests of it stand together: it holds the GPUs until one of them has stopped it.
    """
    training = ray.again("worker-killed", "--set=training.epochs=9999", SAVE_OFTEN)
    training.waits_for("a checkpoint", training.checkpoints)
    training.kill("worker")
    training.waits_for("it to begin again", lambda: len(training.begun()) > 1)
    training.comes_to(STEPS)
    yield training
    ray.end(training)


@pytest.mark.slow
def test_a_worker_that_is_killed_comes_again_and_costs_the_steps_since_the_last_checkpoint(
    restarted: Training, undisturbed: Training
) -> None:
    first, then = restarted.begun()
    assert (first, then % 6) == (0, 0)
    assert 0 < then < STEPS
    assert restarted.losses() == undisturbed.losses()


@pytest.mark.slow
def test_a_training_that_is_stopped_by_hand_or_by_its_limit_of_hours_is_not_tried_again(
    restarted: Training, ray: Ray
) -> None:
    before = restarted.begun()
    limited = ray.again("limited", "--max-run-hours=1e-9")  # it waits for the GPUs of the other
    restarted.stop()
    assert restarted.ends() == "STOPPED"
    assert restarted.begun() == before
    assert limited.ends() == "STOPPED"
    assert limited.checkpoints() == [1]
    assert "error: the run has trained for" in limited.log()


@pytest.mark.slow
def test_a_head_that_is_killed_comes_again_and_costs_the_steps_since_the_last_checkpoint(
    undisturbed: Training, ray: Ray
) -> None:
    training = ray.again("head-killed", SAVE_OFTEN)
    training.waits_for("a checkpoint", training.checkpoints)
    training.kill("head")
    assert training.ends() == "SUCCEEDED"
    assert training.losses() == undisturbed.losses()
    first, then = training.begun()
    assert (first, then % 6) == (0, 0)
    assert then


@pytest.mark.slow
def test_a_worker_that_is_deleted_saves_before_it_goes(undisturbed: Training, ray: Ray) -> None:
    training = ray.again("worker-deleted", *ENDLESS)
    training.comes_to(2)
    ray.stage.api.delete(training.pods("worker")[0])
    training.waits_for("it to begin again", lambda: len(training.begun()) > 1)
    assert training.begun() == [0, *training.checkpoints()]
    training.comes_to(STEPS)
    assert training.losses() == undisturbed.losses()
    ray.end(training)


@pytest.mark.slow
def test_workers_that_share_the_weights_lose_one_and_have_the_losses_of_whole_copies(
    undisturbed: Training, ray: Ray
) -> None:
    training = ray.again("sharded", SAVE_OFTEN, "--set=training.sharding=fsdp2")
    training.waits_for("a checkpoint", training.checkpoints)
    training.kill("worker")
    assert training.ends() == "SUCCEEDED"
    first, then = training.begun()
    assert (first, then % 6) == (0, 0)
    assert then
    # bf16 rounds the shards in other places. In fp32 the losses are equal to 1e-5: test_ray_sharding.py.
    assert training.losses() == pytest.approx(undisturbed.losses(), abs=0.05)
    (newest,) = training.folder.glob(f"checkpoint-{STEPS:08}-*")
    files = json.loads((newest / "COMPLETE.json").read_text())["files"]
    assert {"optimizer_0/__0_0.distcp", "optimizer_0/__1_0.distcp"} <= files.keys()


def test_a_wrong_token_is_told_and_not_tried_again(undisturbed: Training, ray: Ray) -> None:
    known, ray.stage.around.hub.tokens = ray.stage.around.hub.tokens, {}
    training = ray.again("wrong-token")
    try:
        assert training.ends() == "STOPPED"
    finally:
        ray.stage.around.hub.tokens = known
    assert "error: " in training.log()
    assert not training.begun()


@pytest.mark.slow
def test_a_try_that_fails_is_followed_by_one_in_a_new_ray_cluster_which_goes_on(
    undisturbed: Training, ray: Ray
) -> None:
    ray.shut_down()
    training = ray.again("failed", SAVE_OFTEN, own=True)
    training.comes_to(8)
    cluster = training.status()["rayClusterName"]
    training.fail()
    training.waits_for(
        "another Ray cluster", lambda: training.status().get("rayClusterName", cluster) not in ("", cluster)
    )
    training.waits_for("the second try", lambda: len(training.losses()) == STEPS)
    assert training.ends() == "SUCCEEDED"
    assert training.status()["failed"] == 1
    assert training.begun() == [6]
    assert training.losses() == undisturbed.losses()
