"""Ray, as far as KubeRay's operator sees it: a dashboard for each Ray cluster, and pods that submit a job.

Nothing is trained. A submitter that runs hands its job to the head that is there and follows it. It ends with
exit code 0 however the job ends, and with 1 once its head is gone (read in Ray 2.60, dashboard/modules/job).
"""

from contextlib import suppress
from typing import Final

from rehearsal.control_plane.api import Api, ApiError, Object, is_true
from rehearsal.control_plane.kwok import end
from rehearsal.loopback import LoopbackServer, Request

RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"


class RayDashboards(LoopbackServer):
    """A proxy that answers for the dashboard of every Ray cluster.

    Args:
        api: The API server with the pods of the clusters.

    Attributes:
        stopped: Ids of the jobs that somebody asked to stop.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ends: dict[str, str] = {}
        self.stopped: set[str] = set()
        self._submitted: set[tuple[str, str]] = set()
        self._followed: dict[str, str] = {}

    def end(self, rayjob: str, status: str) -> None:
        """Ends what a RayJob has submitted, and whatever it submits later, as soon as the operator asks.

        Args:
            rayjob: Name of the RayJob.
            status: `SUCCEEDED`, `FAILED` or `STOPPED`; or `RUNNING`, and nothing ends.
        """
        self._ends[rayjob] = status

    def serve(self, request: Request) -> None:
        """Answers at `http://CLUSTER-head-svc.NAMESPACE.svc.cluster.local:8265/api/jobs/JOB[/stop]`."""
        request.body()
        host, _, path = request.path.removeprefix("http://").partition("/")
        service, namespace = host.split(".")[:2]
        job = path.split("/")[2]
        if request.command == "POST":
            self.stopped.add(job)
            request.answer_json(200, {"stopped": True})
            return
        with suppress(ApiError):  # a pod that goes while it is looked at
            head = self._head(namespace, service.removesuffix("-head-svc"))
            status = self._status(namespace, head, job) if head else ""
            if status:
                request.answer_json(200, {"submission_id": job, "status": status, "message": _said(status)})
                return
        request.answer(404, b"")

    def _head(self, namespace: str, cluster: str) -> str:
        """Identity of the head that runs; empty without one."""
        labels = {"ray.io/cluster": cluster, "ray.io/node-type": "head"}
        heads = (pod for pod in self._api.list("v1", "Pod", namespace, labels) if is_true(pod, "Ready"))
        return next((str(head["metadata"]["uid"]) for head in heads), "")

    def _status(self, namespace: str, head: str, job: str) -> str:
        """Status of a job; empty while the head does not know it."""
        rayjob = job.rpartition("-")[0]
        pods = self._api.list("v1", "Pod", namespace, {"batch.kubernetes.io/job-name": rayjob})
        followers: list[Object] = []
        for pod in pods:
            if (pod.get("status") or {}).get("phase") != "Running":
                continue
            if self._followed.setdefault(pod["metadata"]["uid"], head) == head:
                self._submitted.add((head, job))
                followers.append(pod)
            else:
                end(self._api, pod, succeeded=False)
        if (head, job) not in self._submitted:
            return ""
        status = STOPPED if job in self.stopped else self._ends.get(rayjob, RUNNING)
        if status != RUNNING:
            for pod in followers:
                end(self._api, pod, succeeded=True)
        return status


def _said(status: str) -> str:
    """As Ray says it, `JobInfo` in dashboard/modules/job/common.py."""
    said = {"STOPPED": "Job was intentionally stopped.", "SUCCEEDED": "Job finished successfully."}
    return said.get(status, "Job entrypoint command failed with exit code 1" if status == "FAILED" else "")
