"""A small part of what the KubeRay operator does: it creates pods and writes statuses.

A RayJob gets a RayCluster, unless it selects one, and a submitter Job. A RayCluster gets a head pod and its
workers. Each is made from its template and owned by the object that it is made for. Missing are Ray itself,
services, roles, restarts, autoscaling and the end of a cluster after its job. Jobs end as `FakeCloud.outcome`
says.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rehearsal.control_plane.api import Api, Object, is_true
from rehearsal.control_plane.kwok import end
from rehearsal.control_plane.readiness import why

_CLUSTER_LABEL: Final = "ray.io/cluster"
_JOB_LABEL: Final = "batch.kubernetes.io/job-name"
# pkg: ray-operator/controllers/ray/utils/constant.go
_NODE_LABELS: Final = {"ray.io/is-ray-node": "yes", "app.kubernetes.io/name": "kuberay"}

# `until` of the API's client, without the timeout.
Wait = Callable[[Callable[[], str], Callable[[], bool]], Any]


class RayOperator:
    """The operator of one cluster.

    Args:
        api: The API server.
        wait: How to wait.
    """

    def __init__(self, api: Api, wait: Wait) -> None:
        self._api = api
        self._wait = wait

    def run(self, tree: Object) -> None:
        """Creates what belongs to a RayCluster or RayJob, and waits until its pods run.

        Args:
            tree: The object. A suspended one first waits until it is resumed.
        """
        if (tree["spec"] or {}).get("suspend"):
            self._wait(
                lambda: f"{tree['kind']} {tree['metadata']['name']} to be admitted",
                lambda: not (self._api.get(tree) or tree)["spec"].get("suspend"),
            )
        if tree["kind"] == "RayCluster":
            self._run_cluster(tree)
        elif tree["kind"] == "RayJob":
            self._run_job(tree)

    def finish(self, job: Object, outcome: str) -> None:
        """Ends a RayJob: its submitter pods end, and its status says so.

        Args:
            job: The RayJob.
            outcome: `Complete` or `Failed`.
        """
        succeeded = outcome == "Complete"
        for pod in self._pods(job, {_JOB_LABEL: job["metadata"]["name"]}):
            end(self._api, pod, succeeded=succeeded)
        self._set(job, jobDeploymentStatus=outcome, jobStatus="SUCCEEDED" if succeeded else "FAILED")

    def _run_job(self, job: Object) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        selected = (spec.get("clusterSelector") or {}).get(_CLUSTER_LABEL)
        if selected is None:
            selected = f"{name}-{job['metadata']['uid'][:5]}"
            version, parts = job["apiVersion"], spec["rayClusterSpec"]
            cluster = self._api.create(_owned(job, version, "RayCluster", selected, parts))
            self._set(job, jobDeploymentStatus="Initializing", rayClusterName=selected)
            self._run_cluster(cluster)
        template = spec.get("submitterPodTemplate")
        if template:
            self._api.create(_owned(job, "batch/v1", "Job", name, {"backoffLimit": 2, "template": template}))
            self._await_pods(job, {_JOB_LABEL: name}, 1)
        self._set(job, jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterName=selected)

    def _run_cluster(self, cluster: Object) -> None:
        pods = list(_pods_of(cluster))
        for pod in pods:
            self._api.create(pod)
        self._await_pods(cluster, {_CLUSTER_LABEL: cluster["metadata"]["name"]}, len(pods))
        workers = len(pods) - 1
        self._set(
            cluster,
            state="ready",
            desiredWorkerReplicas=workers,
            readyWorkerReplicas=workers,
            availableWorkerReplicas=workers,
        )

    def _await_pods(self, owner: Object, labels: Mapping[str, str], count: int) -> None:
        what = f"the pods of {owner['kind']} {owner['metadata']['name']}"
        self._wait(
            lambda: what + why(self._api, owner, {"matchLabels": labels}),
            lambda: sum(is_true(pod, "Ready") for pod in self._pods(owner, labels)) == count,
        )

    def _pods(self, owner: Object, labels: Mapping[str, str]) -> list[Object]:
        return self._api.list("v1", "Pod", owner["metadata"]["namespace"], labels)

    def _set(self, tree: Object, **status: Any) -> None:
        self._api.patch(tree, {"status": status}, "status")


def _pods_of(cluster: Object) -> Iterator[Object]:
    spec = cluster["spec"]
    yield _pod(cluster, spec["headGroupSpec"]["template"], "head", "headgroup", 0)
    for group in spec.get("workerGroupSpecs") or ():
        count = group.get("replicas", 0) * group.get("numOfHosts", 1)
        for index in range(count):
            yield _pod(cluster, group["template"], "worker", group["groupName"], index)


def _pod(cluster: Object, template: Mapping[str, Any], role: str, group: str, index: int) -> Object:
    name = cluster["metadata"]["name"]
    stated = template.get("metadata") or {}
    labels = {
        **_NODE_LABELS,
        **(stated.get("labels") or {}),
        _CLUSTER_LABEL: name,
        "ray.io/node-type": role,
        "ray.io/group": group,
    }
    return _owned(
        cluster,
        "v1",
        "Pod",
        f"{name}-{group}-{role}-{index}",
        template["spec"],
        labels=labels,
        annotations=stated.get("annotations") or {},
    )


def _owned(owner: Object, version: str, kind: str, name: str, spec: Any, **metadata: Any) -> Object:
    """An object beside its owner, which goes when the owner does."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata |= {"name": name, "namespace": owner["metadata"]["namespace"], "ownerReferences": [reference]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
