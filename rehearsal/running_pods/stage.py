"""A stack with pods that run: the unchanged program, a control plane and the pods' surroundings."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from cloud.services.cloudrun import JOB
from cloud.services.kubernetes import prepares
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Object, condition, is_true, until
from rehearsal.control_plane.readiness import has_ended
from rehearsal.pods.kubelet import Kubelet
from rehearsal.running_pods.bucket_objects import BucketObjects
from rehearsal.running_pods.cloud_run import CloudRun
from rehearsal.running_pods.surroundings import Surroundings
from rehearsal.session import Rehearsal

# Seconds to wait for anything. On two busy cores, Ray with a new head needed more than 300.
TIMEOUT: Final = 600.0


def images_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The images of this machine that stand for images of the settings, by the reference.

    Args:
        settings: Values by full key.
    """
    values = {key.rpartition(":")[2]: str(value) for key, value in settings.items()}
    trainer = "maxtext" if values.get("scenario") == "tpu-maxtext" else "finetune"
    names = {"imageUri": trainer, "servingImage": "vllm-openai"}
    return {values[key]: name for key, name in names.items() if key in values}


class Stage:
    """A stack on a control plane with `runs_pods`. It is a context.

    Args:
        stack: Name of the stack.
        overrides: Configuration values in place of the stack file's.
        plane: The control plane.
        around: The surroundings of the pods.
        hosts: The hosts file of the network.
        options: Options of `Rehearsal`.

    Attributes:
        stack: The rehearsal.
        kubelet: The kubelet, which runs the pods.
        around: The surroundings of the pods.
        plane, api: The control plane and its API server.
    """

    def __init__(
        self,
        stack: str,
        overrides: Mapping[str, str],
        plane: ControlPlane,
        around: Surroundings,
        hosts: Path,
        **options: Any,
    ) -> None:
        self.stack = Rehearsal(stack, overrides, plane=plane, **options)
        self.plane, self.api = plane, plane.api
        self.around = around
        self._hosts = hosts

    def __enter__(self) -> Self:
        """Creates an empty stack. The Hub accepts its token."""
        around = self.around
        around.cloud = self.stack.cloud
        around.images = images_of(self.stack.configuration.plain)
        self.stack.buckets = self._buckets
        around.hub.tokens = {text: set() for text in self.stack.configuration.secret.values()}
        with ExitStack() as started:
            started.callback(around.clear)
            self._begin(started)
            around.account_of = self._account_of
            started.enter_context(self.stack)
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops every pod."""
        self._started.close()

    def _begin(self, started: ExitStack) -> None:
        """Starts the kubelet."""
        objects = BucketObjects(self._buckets.joinpath)
        self.stack.cloud.on_write, self.stack.cloud.on_removal = objects.write, objects.remove
        self.kubelet = started.enter_context(Kubelet(self.plane, self.around.machine, self._hosts))

    def _account_of(self, address: str) -> str | None:
        if not (pod := self.kubelet.at(address)):
            return None
        return f"{pod.tree['metadata']['namespace']}/{pod.tree['spec']['serviceAccountName']}"

    @property
    def training(self) -> Object:
        """The Job or RayJob that trains, as the program declares it."""
        kinds = ("kubernetes:batch/v1:Job", "kubernetes:ray.io/v1:RayJob")
        jobs = [item.inputs for kind in kinds for item in self.stack.cloud.of_type(kind)]
        (job,) = (job for job in jobs if not prepares(job))
        return job

    def now(self) -> Object:
        """The present object of the training, empty if it does not exist."""
        return self.api.get(self.training) or {}

    def pods(self) -> list[Object]:
        """All pods, the oldest first."""
        return sorted(self.api.list("v1", "Pod"), key=lambda pod: pod["metadata"]["creationTimestamp"])

    def outcome(self) -> str:
        """`Complete` or `Failed` with the reason, empty while the training runs."""
        now = self.now()
        if now.get("kind") == "RayJob":
            if not has_ended(now):
                return ""
            status = now["status"]
            return f"{status['jobDeploymentStatus']} {status.get('message', '')}".strip()
        for name in ("Complete", "Failed"):
            if is_true(now, name):
                return f"{name} {condition(now, name).get('reason')}"
        return ""

    def waits_for(self, what: str, ask: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
        """Waits until an answer is true, and returns it. A WaitError has the end of the last pod's log."""
        return until(lambda: f"{what}; {self._logged()}", ask, timeout)

    def run(self) -> Path:
        """The run's folder in the bucket. Waits until there is one."""
        file = self.waits_for("a run", lambda: next(self._buckets.rglob("run.json"), None))
        return file.parent

    def node_of(self, pod: Object) -> str:
        """The node of a pod. Waits until it is bound to one."""
        return self.waits_for("a node", lambda: (self.api.get(pod) or pod)["spec"].get("nodeName"))

    def saved(self) -> int:
        """The step of the newest complete checkpoint, 0 without one."""
        complete = self._buckets.rglob("checkpoint-*/COMPLETE.json")
        return max((int(file.parent.name.split("-")[1]) for file in complete), default=0)

    def losses(self, run: str = "*") -> dict[int, float]:
        """The training losses in a run's metrics, by step. For a repeated step it is the last one."""
        return {step: line["loss"] for step, line in self.steps(run).items()}

    def steps(self, run: str = "*") -> dict[int, dict[str, float]]:
        """What a run has logged of its training steps, by step. For a repeated step it is the last one."""
        file = next(iter(self._buckets.rglob(f"{run}/metrics.jsonl")), None)
        lines = map(json.loads, file.read_text().splitlines()) if file else ()
        return {line["step"]: line for line in lines if "loss" in line}

    @property
    def _buckets(self) -> Path:
        return self.around.buckets.folder

    def _logged(self) -> str:
        pods = [pod for pod in self.pods() if self.kubelet.pod(pod["metadata"]["name"])]
        return self.kubelet.log(pods[-1])[-2000:] if pods else "no pod runs"


class CloudRunStage(Stage):
    """A stack on Cloud Run, which needs no control plane. `up` returns at the end of its training.

    Args:
        stack: Name of the stack.
        overrides: Configuration values in place of the stack file's.
        around: The surroundings of the containers.
        options: Options of `Rehearsal`.

    Attributes:
        cloud_run: Cloud Run, which runs the containers.
    """

    def __init__(
        self, stack: str, overrides: Mapping[str, str], around: Surroundings, **options: Any
    ) -> None:
        self.stack = Rehearsal(stack, overrides, **options)
        self.around = around

    def _begin(self, started: ExitStack) -> None:
        self.cloud_run = CloudRun(self.stack.cloud, self.stack.runs, self.around.machine)
        started.callback(self.cloud_run.stop)

    def _account_of(self, address: str) -> str | None:
        instance = self.cloud_run.at(address)
        return instance.tree["spec"]["serviceAccountName"] if instance else None

    @property
    def training(self) -> Object:
        """The job that trains, as the program declares it."""
        (job,) = self.stack.cloud.of_type(JOB.type)
        return job.inputs

    def now(self) -> Object:
        """The newest execution, empty before there is one."""
        return next(reversed(self.stack.runs.executions.values()), {})

    def pods(self) -> list[Object]:
        """All containers of jobs and services, the oldest first."""
        return [instance.tree for instance in self.cloud_run.instances]

    def outcome(self) -> str:
        """`Complete` or `Failed` with the reason, empty while the training runs."""
        names = {"CONDITION_SUCCEEDED": "Complete", "CONDITION_FAILED": "Failed"}
        ends = self.now().get("conditions", ())
        return next((f"{names[end['state']]} {end['message']}".strip() for end in ends), "")

    def _logged(self) -> str:
        instances = self.cloud_run.instances
        return instances[-1].log()[-2000:] if instances else "nothing runs"
