"""What may become of a training on Ray, played out with KubeRay's own operator."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rehearsal.control_plane.api import Object, until
from rehearsal.control_plane.ray_dashboards import RUNNING
from rehearsal.errors import RehearsalError
from rehearsal.fake_kubernetes import RAY_ENDS
from rehearsal.live_cluster import LiveCluster
from rehearsal.session import Rehearsal

# Seconds for a course; on a busy machine three tries took more than 60.
_TIMEOUT: Final = 180.0


@dataclass(frozen=True, kw_only=True)
class Training:
    """The stack's RayJob; `tree` is how the program declares it."""

    cluster: LiveCluster
    tree: Object

    def now(self) -> Object:
        """The operator's view, every Ray cluster that there is, and the phases of the pods that submit."""
        api, job = self.cluster.api, {"batch.kubernetes.io/job-name": self.tree["metadata"]["name"]}
        return ((api.get(self.tree) or {}).get("status") or {}) | {
            "clusters": [each["metadata"]["name"] for each in api.list("ray.io/v1", "RayCluster")],
            "submitters": sorted(pod["status"]["phase"] for pod in api.list("v1", "Pod", labels=job)),
        }

    def pods(self, role: str) -> dict[str, Object]:
        """Pods of its Ray cluster that run, by identity."""
        labels = {"ray.io/cluster": self.now()["rayClusterName"], "ray.io/node-type": role}
        pods = self.cluster.api.list("v1", "Pod", labels=labels)
        return {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}

    def comes_to(self, wanted: Object, ask: Callable[[], Object]) -> None:
        """Waits until the answer has everything that is wanted."""
        until(lambda: f"{wanted}; it is {ask()}", lambda: wanted.items() <= ask().items(), _TIMEOUT)

    def run(self) -> None:
        """Makes it run as the program declares it: a new one, where the one before has ended."""
        if self.now().get("jobDeploymentStatus") != "Running":
            self.cluster.delete(self.tree)
            self.cluster.plane.ray.end(self.tree["metadata"]["name"], RUNNING)
            self.cluster.write(self.tree, new=True, force=True)

    def loses(self, role: str, *submitters: str) -> str:
        """A pod is lost: it comes anew, of a slice all; the same job goes on in the same Ray cluster."""
        (group,) = self.tree["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        replaced = group["numOfHosts"] if role == "worker" else 1
        before, pods = self.now(), self.pods(role)
        self.cluster.api.delete(next(iter(pods.values())))
        same = ("jobId", "rayClusterName", "clusters", "jobStatus", "jobDeploymentStatus")
        wanted = {key: before[key] for key in same} | {"submitters": list(submitters)}

        def now() -> Object:
            running = self.pods(role).keys()
            return self.now() | {"running": len(running), "kept": len(running & pods.keys())}

        self.comes_to(wanted | {"running": len(pods), "kept": len(pods) - replaced}, now)
        return (
            f"{replaced} of {len(pods)} replaced, the same job and Ray cluster; submitters {list(submitters)}"
        )

    def ends(self, wanted: Object, **spec: Any) -> str:
        """Every try ends with the wanted `jobStatus`, and no Ray cluster is left; each failed try had one."""
        had = set(self.now()["clusters"])
        self.cluster.plane.ray.end(self.tree["metadata"]["name"], wanted["jobStatus"])
        self.cluster.api.patch(self.tree, {"spec": {"ttlSecondsAfterFinished": 0, **spec}})

        def now() -> Object:
            had.update((seen := self.now())["clusters"])
            return seen | {"tries": len(had)}

        wanted = wanted | {"tries": wanted["failed"] or 1, "clusters": []}
        self.comes_to(wanted, now)
        return ", ".join(f"{key} {value}" for key, value in wanted.items())


# The log stays with the submitter, which has succeeded however the training has ended.
_LOGGED: Final = {"submitters": ["Succeeded"]}
_TRIED: Final = {"failed": 3, "reason": "AppFailed"} | _LOGGED
_LATE: Final = {"failed": 1, "reason": "DeadlineExceeded", "jobStatus": RUNNING}
# The training that has lost a worker is the one that then succeeds.
_COURSES: Final[Mapping[str, Callable[[Training], str]]] = {
    "a lost worker": lambda training: training.loses("worker", "Running"),
    "a success": lambda training: training.ends(RAY_ENDS["Complete"] | _LOGGED | {"failed": 0}),
    "a lost head": lambda training: training.loses("head", "Failed", "Running"),
    "a failed training": lambda training: training.ends(RAY_ENDS["Failed"] | _TRIED),
    "a stop": lambda training: training.ends(RAY_ENDS["Stopped"] | _LOGGED | {"failed": 0}),
    "a deadline": lambda training: training.ends(RAY_ENDS["Failed"] | _LATE, activeDeadlineSeconds=1),
}


def trainings(stack: Rehearsal) -> list[Training]:
    """RayJobs on the stack's control plane that bring a Ray cluster of their own."""
    jobs = [item.inputs for item in stack.cloud.of_type("kubernetes:ray.io/v1:RayJob")]
    own = [job for job in jobs if "rayClusterSpec" in job["spec"]]
    return [Training(cluster=stack.cluster, tree=job) for job in own] if stack.cluster else []


def play(training: Training) -> Iterator[str]:
    """Says what each course came to, or raises RehearsalError; then it runs as the program declares it."""
    for title, course in _COURSES.items():
        try:
            training.run()
            yield f"{title}: {course(training)}"
        except RehearsalError as error:
            raise RehearsalError(f"{title}: {error}") from None
    training.run()
