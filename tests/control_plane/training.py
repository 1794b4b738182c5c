"""A training on Ray, as the API server and KubeRay's operator have it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rehearsal import Rehearsal
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, Object, until

# Each step takes the operator some seconds: it looks every three.
TIMEOUT = 60.0


@dataclass(frozen=True, kw_only=True)
class Training:
    """The stack's RayJob, which runs.

    Args:
        tree: As the program declares it.
    """

    plane: ControlPlane
    stack: Rehearsal
    tree: Object

    @property
    def api(self) -> Api:
        return self.plane.api

    @property
    def name(self) -> str:
        return self.tree["metadata"]["name"]

    def status(self) -> Object:
        """The operator's view."""
        return (self.api.get(self.tree) or {}).get("status") or {}

    def pods(self, role: str) -> dict[str, Object]:
        """Pods of its Ray cluster that run, by identity."""
        labels = {"ray.io/cluster": self.status()["rayClusterName"], "ray.io/node-type": role}
        pods = self.api.list("v1", "Pod", "ray", labels)
        return {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}

    def submitters(self) -> list[str]:
        """Phases of the pods that submit it."""
        pods = self.api.list("v1", "Pod", "ray", {"batch.kubernetes.io/job-name": self.name})
        return sorted(pod["status"]["phase"] for pod in pods)

    def clusters(self) -> list[str]:
        """Every Ray cluster that there is."""
        return [each["metadata"]["name"] for each in self.api.list("ray.io/v1", "RayCluster", "ray")]

    def change(self, **spec: Any) -> None:
        """Changes what the program declares, so that nobody waits for it."""
        self.api.patch(self.tree, {"spec": spec})

    def comes_to(self, wanted: Any, ask: Callable[[], Any]) -> None:
        """Waits until an answer is the wanted one."""
        until(lambda: f"{wanted}; it is {ask()}; {self.status()}", lambda: ask() == wanted, TIMEOUT)

    def ends(self, deployment: str) -> Object:
        """Waits for its end."""
        self.comes_to(deployment, lambda: self.status().get("jobDeploymentStatus"))
        return self.status()
