"""The demonstration of tutorial 002, for any stack: serving and training share one queue.

All states are read from the API server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rehearsal.control_plane.api import Api, Object, condition, is_true, until

# Every step takes a second or two; see ../shared/reference/control-plane.md.
TIMEOUT = 30.0


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """A Deployment that serves and a Job that trains.

    Args:
        api: The API server.
        namespace: Where both are.
        deployment: Name of the Deployment.
        job: Name of the Job.
    """

    api: Api
    namespace: str
    deployment: str
    job: str

    def scale(self, replicas: int) -> None:
        """Asks for as many servers."""
        self.api.patch(
            self._named("apps/v1", "Deployment", self.deployment), {"spec": {"replicas": replicas}}
        )

    def servers(self) -> tuple[int, int]:
        """Servers that run, and servers that wait for admission."""
        deployment = self.api.get(self._named("apps/v1", "Deployment", self.deployment)) or {}
        pods = self.pods(deployment["spec"]["selector"]["matchLabels"])
        return sum(is_true(pod, "Ready") for pod in pods), sum(_is_gated(pod) for pod in pods)

    def training(self) -> tuple[bool, int, int]:
        """Whether the Job is suspended, how many of its pods run, and how many there are in all."""
        job = self.api.get(self._named("batch/v1", "Job", self.job)) or {"spec": {}}
        pods = self.pods({"batch.kubernetes.io/job-name": self.job})
        return bool(job["spec"].get("suspend")), sum(is_true(pod, "Ready") for pod in pods), len(pods)

    def ended(self) -> bool:
        """Whether the Job is complete."""
        return is_true(self.api.get(self._named("batch/v1", "Job", self.job)) or {}, "Complete")

    def pods(self, labels: dict[str, str]) -> list[Object]:
        """Pods with these labels."""
        text = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.api.list("v1", "Pod", self.namespace, text)

    def workload(self) -> Object:
        """Kueue's Workload of the Job, empty while there is none."""
        workloads = self.api.list("kueue.x-k8s.io/v1beta2", "Workload", self.namespace)
        of_job = [each for each in workloads if each["metadata"]["name"].startswith(f"job-{self.job}-")]
        return of_job[0] if of_job else {}

    def comes_to(self, ask: Callable[[], Any], wanted: Any) -> None:
        """Waits until an answer is the wanted one."""
        until(lambda: f"{wanted}; it is {ask()}", lambda: ask() == wanted, TIMEOUT)

    def run(self, start_training: Callable[[], object]) -> None:
        """The whole course; the Deployment has one replica, and the Job does not exist yet."""
        self.comes_to(self.servers, (1, 0))
        self.scale(4)
        self.comes_to(self.servers, (3, 1))
        self.scale(1)
        self.comes_to(self.servers, (1, 0))
        start_training()
        self.comes_to(self.training, (False, 2, 2))
        assert self.servers() == (1, 0)
        first = {pod["metadata"]["uid"] for pod in self.pods({"batch.kubernetes.io/job-name": self.job})}

        self.scale(2)
        self.comes_to(self.training, (True, 0, 0))
        self.comes_to(self.servers, (2, 0))
        assert condition(self.workload(), "Evicted").get("reason") == "Preempted"
        assert not is_true(self.workload(), "QuotaReserved")

        self.scale(1)
        self.comes_to(self.training, (False, 2, 2))
        assert self.servers() == (1, 0)
        assert is_true(self.workload(), "Admitted")
        again = {pod["metadata"]["uid"] for pod in self.pods({"batch.kubernetes.io/job-name": self.job})}
        assert not first & again  # other pods, which go on where a checkpoint says

    def _named(self, version: str, kind: str, name: str) -> Object:
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
        }


def _is_gated(pod: Object) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return scheduled.get("status") == "False" and scheduled.get("reason") == "SchedulingGated"
