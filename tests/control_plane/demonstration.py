"""The demonstration of tutorial 002, serving and training share one queue, as the API server sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloud.services.kubernetes import prepares
from rehearsal.control_plane.api import Api, Object, condition, is_true, until
from rehearsal.control_plane.kwok import end
from rehearsal.session import Rehearsal
from tests import plans

# The Job of a trial is not part of the demonstration.
SETTINGS = {"imageUri": plans.IMAGE, "trial": "false"}
SERVING_ALONE, ONE_SERVER, TWO_SERVERS = "4", "1", "2"
# Seconds. Every step takes one or two.
TIMEOUT = 30.0
SERVING: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "serving", "namespace": "llm"},
}


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """The stack l4-kueue on a control plane.

    Args:
        stack: The stack.
        api: The API server.
    """

    stack: Rehearsal
    api: Api

    def ask_for(self, replicas: str) -> None:
        """Sets the number of servers by configuration, and runs `up`."""
        self.stack.configure({**SETTINGS, "servingReplicas": replicas})
        self.stack.up()

    @property
    def job(self) -> Object:
        """The fine-tune's Job, as the program declares it."""
        jobs = [item.inputs for item in self.stack.cloud.of_type("kubernetes:batch/v1:Job")]
        (job,) = (job for job in jobs if not prepares(job))
        return job

    def servers(self) -> tuple[int, int]:
        """Servers that run, and servers that wait for admission."""
        pods = self.pods((self.api.get(SERVING) or {})["spec"]["selector"]["matchLabels"])
        return sum(is_true(pod, "Ready") for pod in pods), sum(_is_gated(pod) for pod in pods)

    def training(self) -> tuple[bool, int, int]:
        """Whether the Job is suspended, how many of its pods run, and how many there are in all."""
        job = self.api.get(self.job) or {"spec": {}}
        pods = self.pods_of(self.job)
        return bool(job["spec"].get("suspend")), sum(is_true(pod, "Ready") for pod in pods), len(pods)

    def pods_of(self, job: Object) -> list[Object]:
        """Pods of a Job."""
        return self.pods({"batch.kubernetes.io/job-name": job["metadata"]["name"]})

    def pods(self, labels: dict[str, str]) -> list[Object]:
        """Pods with these labels."""
        return self.api.list("v1", "Pod", "llm", labels)

    def annotate(self, job: Object, **annotations: str) -> None:
        """Writes annotations on the pods of a Job."""
        for pod in self.pods_of(job):
            self.api.patch(pod, {"metadata": {"annotations": annotations}})

    def end(self, job: Object, *, succeeded: bool) -> None:
        """Ends the pods of a Job."""
        for pod in self.pods_of(job):
            end(self.api, pod, succeeded=succeeded)

    def workload(self, job: Object) -> Object:
        """Kueue's Workload of a Job, empty while there is none."""
        workloads = self.api.list("kueue.x-k8s.io/v1beta2", "Workload", "llm")
        name = f"job-{job['metadata']['name']}-"
        return next((workload for workload in workloads if workload["metadata"]["name"].startswith(name)), {})

    def comes_to(self, ask: Callable[[], Any], wanted: Any) -> None:
        """Waits until an answer is the wanted one."""
        until(lambda: f"{wanted}; it is {ask()}", lambda: ask() == wanted, TIMEOUT)


def _is_gated(pod: Object) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return scheduled.get("status") == "False" and scheduled.get("reason") == "SchedulingGated"
