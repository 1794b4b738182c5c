"""Objects as a cluster shows them and metrics as the training writes them, shortened to what matters."""

import json
from typing import Any

Object = dict[str, Any]

NS = "llm"
LICENCE = "ValueError: model google/gemma-3-4b-it is gated and the token in HF_TOKEN gives no access"

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/{0}/pods"
EVENTS = "/api/v1/namespaces/{0}/events"
JOBS = "/apis/batch/v1/namespaces/{0}/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{0}/deployments"
RAY_JOBS = "/apis/ray.io/v1/namespaces/{0}/rayjobs"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/{0}/rayclusters"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{0}/workloads"
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{0}/localqueues/llm/pendingworkloads"


def node(name: str, *, ready: bool = True, gpus: int = 2) -> Object:
    labels = {
        "cloud.google.com/gke-nodepool": "l4-pool",
        "node.kubernetes.io/instance-type": "g2-standard-24",
    }
    conditions = [condition("Ready", ready)]
    allocatable = {"nvidia.com/gpu": str(gpus), "cpu": "23"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": conditions, "allocatable": allocatable},
    }


def condition(name: str, holds: bool, reason: str = "", message: str = "", since: str = "") -> Object:
    return {
        "type": name,
        "status": str(holds),
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or None,
    }


def pod(name: str, phase: str, *, conditions: list[Object] | None = None, **status: Any) -> Object:
    metadata = {"name": name, "namespace": "llm", "uid": f"uid-{name}"}
    default = [condition("PodScheduled", True), condition("Ready", phase == "Running")]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1" if phase != "Pending" else ""},
        "status": {"phase": phase, "conditions": conditions or default, **status},
    }


def unscheduled(
    name: str, message: str = "0/3 nodes are available.", reason: str = "Unschedulable"
) -> Object:
    return pod(name, "Pending", conditions=[condition("PodScheduled", False, reason, message)])


def waiting(name: str, reason: str, message: str = "") -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(name, "Pending", containerStatuses=[{"name": "main", "restartCount": 0, "state": state}])


def ended(name: str, code: int, reason: str = "Error") -> Object:
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return pod(name, "Failed", containerStatuses=[{"name": "main", "restartCount": 0, "state": state}])


def crashing(name: str, code: int) -> Object:
    container = {
        "name": "main",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": code}},
    }
    scheduled = [condition("PodScheduled", True), condition("Ready", False)]
    return pod(name, "Running", conditions=scheduled, containerStatuses=[container])


def event(about: str, reason: str, message: str, at: str = "2026-11-21T10:00:00Z") -> Object:
    return {
        "metadata": {"name": f"{about}.{reason}", "creationTimestamp": at},
        "involvedObject": {"name": about, "uid": f"uid-{about}"},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def workload(
    name: str, *conditions: Object, priority: int = 10, created: str = "2026-11-21T09:00:00Z"
) -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {
            "queueName": "llm",
            "priority": priority,
            "priorityClassRef": {"name": "high" if priority > 10 else "low"},
        },
        "status": {"conditions": [*conditions]},
    }


METRICS = [
    {"step": 1, "steps": 40, "loss": 2.5, "tokens_per_second": 900.0, "seconds_left": 4000.0},
    {"step": 2, "eval_loss": 2.25, "eval_token_accuracy": 0.5},
    {"step": 2, "steps": 40, "loss": 2.0, "tokens_per_second": 1000.0, "seconds_left": 3900.0},
]


def lines_of(*metrics: Object) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in metrics).encode()
