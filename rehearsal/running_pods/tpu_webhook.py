"""Changes the pods of a TPU slice as GKE's webhook does before they exist: index, names and variables.

The Ray add-on of GKE installs the webhook: main.go of https://github.com/ai-on-gke/kuberay-tpu-webhook, read
at ef658db on 2026-11-25. The parts for newer TPUs and GKE's device plugin are left out. So is the
affinity that keeps the pods of a slice on one node pool and others off it (assumption tpu-slices-apart).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Final

from cloud.machines import TPU_RESOURCE
from cloud.slices import slice_of
from rehearsal.control_plane.api import Object

_CLUSTER: Final = "ray.io/cluster"
_GROUP: Final = "ray.io/group"
# KubeRay numbers replicas and hosts since 1.5.
_REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
_HOST_INDEX: Final = "ray.io/replica-host-index"
# The webhook's own label, GROUP-INDEX, for pods that KubeRay did not number.
_OWN_INDEX: Final = "replicaIndex"
_WORKER_ID: Final = "TPU_WORKER_ID"
# Longer names of services lose their beginning: CheckName in KubeRay's util.go.
_LONGEST_SERVICE: Final = 50


def admitted(pod: Object, others: Sequence[Object]) -> Object:
    """The pod after the webhook: a changed copy, or the pod itself if it is none of Ray's or has no TPUs.

    Args:
        pod: A new pod.
        others: The pods that exist and are not being deleted, after the webhook.
    """
    if _GROUP not in pod["metadata"].get("labels", {}) or not any(_tpu_containers(pod)):
        return pod
    pod = deepcopy(pod)
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    group = labels[_GROUP]
    hosts = slice_of(spec["nodeSelector"]).hosts
    if _REPLICA_INDEX in labels and _HOST_INDEX in labels:
        replica, host = int(labels[_REPLICA_INDEX]), int(labels[_HOST_INDEX])
    else:
        replica, host = _next_place(pod, others, hosts)
        labels[_OWN_INDEX] = f"{group}-{replica}"
    environment = {_WORKER_ID: str(host), "TPU_NAME": f"{group}-{replica}"}
    if hosts > 1:
        service = f"{labels[_CLUSTER]}-headless"[-_LONGEST_SERVICE:]
        spec |= {"hostname": f"{group}-{replica}-{host}", "subdomain": service}
        names = (f"{group}-{replica}-{number}.{service}" for number in range(hosts))
        environment["TPU_WORKER_HOSTNAMES"] = ",".join(names)
    for container in _tpu_containers(pod):
        env = container.setdefault("env", [])
        own = {variable["name"] for variable in env}
        env += [{"name": name, "value": value} for name, value in environment.items() if name not in own]
    return pod


def _next_place(pod: Object, others: Sequence[Object], hosts: int) -> tuple[int, int]:
    """The first replica of the group that is not whole, and the first host that it lacks."""
    taken: defaultdict[int, set[int]] = defaultdict(set)
    for other in others:
        if _OWN_INDEX in other["metadata"].get("labels", {}) and _group_of(other) == _group_of(pod):
            replica = int(other["metadata"]["labels"][_OWN_INDEX].rpartition("-")[2])
            taken[replica].add(_worker_id(other))
    replica = min((index for index, workers in taken.items() if len(workers) < hosts), default=len(taken))
    return replica, min(set(range(hosts)) - taken[replica])


def _group_of(pod: Object) -> tuple[str, str, str]:
    labels = pod["metadata"]["labels"]
    return pod["metadata"]["namespace"], labels.get(_CLUSTER, ""), labels.get(_GROUP, "")


def _worker_id(pod: Object) -> int:
    variables = (variable for container in _tpu_containers(pod) for variable in container["env"])
    return next(int(variable["value"]) for variable in variables if variable["name"] == _WORKER_ID)


def _tpu_containers(pod: Object) -> Iterator[Object]:
    for container in pod["spec"]["containers"]:
        if TPU_RESOURCE in ((container.get("resources") or {}).get("limits") or {}):
            yield container
