"""Objects as a cluster shows them and metrics as the training writes them, shortened to what matters."""

import json
from typing import Any, Final

from operations.status.report import Line, Report

Object = dict[str, Any]

LICENCE: Final = "ValueError: model google/gemma-3-4b-it is gated and the token in HF_TOKEN gives no access"
# What is said of it, and of others that several tests meet.
GATED: Final = "the model is gated: the token's account has not accepted its licence"
STOCKOUT: Final = "stockout: Google has no such machine there now"
QUOTA: Final = "quota: the project may not have that many in the region"

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/namespaces/llm/pods"
EVENTS: Final = "/api/v1/namespaces/llm/events"
JOBS: Final = "/apis/batch/v1/namespaces/llm/jobs"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/llm/deployments"
RAY_JOBS: Final = "/apis/ray.io/v1/namespaces/ray/rayjobs"
RAY_CLUSTERS: Final = "/apis/ray.io/v1/namespaces/ray/rayclusters"
WORKLOADS: Final = "/apis/kueue.x-k8s.io/v1beta2/namespaces/llm/workloads"


def line(report: Report, kind: str) -> Line:
    """The only line of a kind."""
    (only,) = [candidate for candidate in report.lines if candidate.kind == kind]
    return only


def why(report: Report, kind: str = "pod") -> str:
    """The reason in the only line of a kind, empty if all is well."""
    reason = line(report, kind).why
    return reason.text if reason else ""


def node(name: str, *, ready: bool = True) -> Object:
    labels = {
        "cloud.google.com/gke-nodepool": "l4-pool",
        "node.kubernetes.io/instance-type": "g2-standard-24",
    }
    status = {"conditions": [condition("Ready", ready)], "allocatable": {"nvidia.com/gpu": "2", "cpu": "23"}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def condition(name: str, holds: bool, reason: str = "", message: str = "", since: str = "") -> Object:
    return {
        "type": name,
        "status": str(holds),
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or None,
    }


def pod(phase: str, *conditions: Object, name: str = "p", **status: Any) -> Object:
    default = (condition("PodScheduled", True), condition("Ready", "containerStatuses" not in status))
    return {
        "metadata": {"name": name, "namespace": "llm", "uid": f"uid-{name}"},
        "spec": {"nodeName": "node-1" if phase != "Pending" else ""},
        "status": {"phase": phase, "conditions": conditions or default, **status},
    }


def using(tree: Object) -> Object:
    """A pod that asks for two GPUs."""
    tree["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    return tree


def unscheduled(message: str = "", reason: str = "Unschedulable", name: str = "p") -> Object:
    return pod("Pending", condition("PodScheduled", False, reason, message), name=name)


def waiting(reason: str, message: str = "", name: str = "p", code: int | None = None) -> Object:
    """A pod that does not start. With an exit code, a pod that started and ended."""
    last = {} if code is None else {"terminated": {"exitCode": code}}
    state = {"waiting": {"reason": reason, "message": message}}
    container = {"name": "main", "restartCount": 3, "state": state, "lastState": last}
    return pod("Pending" if code is None else "Running", name=name, containerStatuses=[container])


def ended(code: int, reason: str = "Error", message: str = "", container: str = "main") -> Object:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return pod("Failed", containerStatuses=[{"name": container, "state": state}])


def event(reason: str, message: str, at: str = "10:00", about: str = "p") -> Object:
    time = f"2026-11-21T{at}:00Z"
    return {
        "metadata": {"name": f"{about}.{reason}", "creationTimestamp": time},
        "involvedObject": {"name": about, "uid": f"uid-{about}"},
        "reason": reason,
        "message": message,
        "lastTimestamp": time,
    }


def workload(name: str, *conditions: Object, priority: int = 10, created: str = "09:00") -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-11-21T{created}:00Z"},
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
    return "".join(f"{json.dumps(entry)}\n" for entry in metrics).encode()
