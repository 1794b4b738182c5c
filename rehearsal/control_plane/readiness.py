"""Decides whether an object is ready, as Pulumi's Kubernetes provider does, and says why it is not.

It knows the kinds of the stacks, the annotation `pulumi.com/skipAwait`, and `pulumi.com/waitFor` of RayJobs:
https://www.pulumi.com/registry/packages/kubernetes/#annotations and provider/pkg/await/await.go.
The provider also waits for volumes and for addresses of load balancers. There are none here, so nothing waits
for them. The provider does not wait for Ray's objects. The rehearsal does, so an object that the operator
rejects fails here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from cloud.services.kubernetes import is_awaited
from rehearsal.control_plane.api import Api, Object, condition, is_true
from rehearsal.fakes.cloud import Rejected

_RAY_CLUSTER: Final = "ray.io/cluster"
# Values of `jobDeploymentStatus` at the end (KubeRay's rayjob_controller.go).
_ENDS: Final = ("Complete", "Failed", "ValidationFailed")


def awaited(tree: Mapping[str, Any]) -> Callable[[Api, Object], str] | None:
    """The check of an object's readiness, None if the provider does not wait for it.

    The check returns what is missing, empty when the object is ready. It raises Rejected if the object can
    never become ready.
    """
    annotations = (tree.get("metadata") or {}).get("annotations") or {}
    if annotations.get("pulumi.com/skipAwait") == "true":
        return None
    return _READY.get(str(tree["kind"]))


def _deployment(api: Api, live: Object) -> str:
    status = live.get("status") or {}
    if status.get("observedGeneration", 0) < live["metadata"]["generation"]:
        return "the controller has not seen it yet"
    wanted, ready = live["spec"]["replicas"], status.get("readyReplicas", 0)
    if min(ready, status.get("updatedReplicas", 0)) < wanted or not is_true(live, "Available"):
        return f"{ready} of {wanted} pods are ready" + why(api, live, live["spec"]["selector"]["matchLabels"])
    return ""


def _job(api: Api, live: Object) -> str:
    name, labels = live["metadata"]["name"], {"batch.kubernetes.io/job-name": live["metadata"]["name"]}
    if is_true(live, "Failed"):
        message = condition(live, "Failed").get("message")
        raise Rejected(f"Job {name} failed: {message}{why(api, live, labels)}")
    if is_true(live, "Complete"):
        return ""
    return "it is not complete" + why(api, live, labels)


def _service(api: Api, live: Object) -> str:
    spec = live["spec"]
    if spec.get("clusterIP") == "None":
        return ""
    slices = api.list(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        live["metadata"]["namespace"],
        {"kubernetes.io/service-name": live["metadata"]["name"]},
    )
    endpoints = [endpoint for part in slices for endpoint in part.get("endpoints") or ()]
    if any(endpoint["conditions"].get("ready") for endpoint in endpoints):
        return ""
    return "no pod behind it is ready" + why(api, live, spec["selector"])


def _ray_cluster(api: Api, live: Object) -> str:
    if (live.get("status") or {}).get("state") == "ready":
        return ""
    return "it is not ready" + why(api, live, {_RAY_CLUSTER: live["metadata"]["name"]})


def _ray_job(api: Api, live: Object) -> str:
    status = live.get("status") or {}
    if has_ended(live) and not is_awaited(live):
        raise Rejected(f"RayJob {live['metadata']['name']} has ended: {status.get('message')}")
    if has_ended(live) or (is_running(live) and not is_awaited(live)):
        return ""
    pods = {_RAY_CLUSTER: status.get("rayClusterName", "")}
    return f"it is {status.get('jobDeploymentStatus') or 'new'}" + why(api, live, pods)


def is_running(ray_job: Object) -> bool:
    """Whether the Ray cluster exists and the operator has submitted the job."""
    return (ray_job.get("status") or {}).get("jobDeploymentStatus") == "Running"


def has_ended(ray_job: Object) -> bool:
    """Whether a RayJob has ended."""
    return (ray_job.get("status") or {}).get("jobDeploymentStatus") in _ENDS


_READY: Final[Mapping[str, Callable[[Api, Object], str]]] = {
    "Deployment": _deployment,
    "Job": _job,
    "Service": _service,
    "RayCluster": _ray_cluster,
    "RayJob": _ray_job,
}


def why(api: Api, live: Object, labels: Mapping[str, str]) -> str:
    """The first pod that is not ready, with the reason if it has one, as the end of a sentence."""
    pods = api.list("v1", "Pod", live["metadata"]["namespace"], labels)
    waiting = [(pod["metadata"]["name"], _reason(pod)) for pod in pods if not is_true(pod, "Ready")]
    if not waiting:
        return ""
    with_reason = [(name, reason) for name, reason in waiting if reason]
    name, reason = (with_reason or waiting)[0]
    return f"; pod {name}{reason}"


def _reason(pod: Object) -> str:
    """The provider's message about a pod that is not ready (provider/pkg/await/checker/pod)."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f": {scheduled.get('reason')}: {scheduled.get('message')}"
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [container.get("state") or {} for container in containers]
    ends = [state["terminated"] for state in states if "terminated" in state]
    return "".join(f": [{end['reason']}] {end['message']}" for end in ends if end.get("message"))
