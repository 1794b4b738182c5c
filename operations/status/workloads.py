"""The status of Jobs, servers and Ray, and Kueue's decisions about them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from operations.status import capacity, pending, words
from operations.status.cluster import Object
from operations.status.pods import condition_of, holds
from operations.status.report import Line, Why, line
from workloads.shared.exit_codes import EXIT_CODES

_RAY_REJECTED: Final = "correct what the message names, then pulumi up"
_REFUSED: Final = "change the setting or manifest that the message names, then pulumi up"
_RAY_LOG: Final = "the stack's output watchTraining shows its log"


def job(tree: Object) -> Line:
    """A Kubernetes Job."""
    status, spec = tree.get("status") or {}, tree.get("spec") or {}
    done = f"{status.get('succeeded') or 0} of {spec.get('completions') or 1} pods done"
    if holds(tree, "Complete"):
        return line("job", _name(tree), "complete", done)
    if holds(tree, "Failed"):
        return line("job", _name(tree), "failed", done, why=_job_failed(condition_of(tree, "Failed")))
    if spec.get("suspend"):
        return line("job", _name(tree), "suspended", waits=True)
    state = "running" if status.get("ready") else "starting"
    active = f"{status.get('active') or 0} of {spec.get('parallelism') or 1} pods"
    return line("job", _name(tree), state, active, waits=not status.get("ready"))


def server(tree: Object) -> Line:
    """A Deployment."""
    replicas = (tree.get("spec") or {}).get("replicas")
    wanted = 1 if replicas is None else replicas
    ready = (tree.get("status") or {}).get("readyReplicas") or 0
    why = _no_pods(tree) if ready < wanted else None
    return line("server", _name(tree), f"{ready} of {wanted} ready", waits=ready < wanted, why=why)


def _no_pods(tree: Object) -> Why | None:
    """Why a Deployment gets no pods, None if it gets them. Its pods say themselves why they are not ready."""
    failure = condition_of(tree, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    return words.explain(
        str(failure.get("message") or ""), otherwise="its pods are refused: {}", remedy=_REFUSED
    )


def ray_job(tree: Object) -> Line:
    """A RayJob of KubeRay: `jobDeploymentStatus` is the operator's view, `jobStatus` Ray's."""
    status = tree.get("status") or {}
    deployment, ray = status.get("jobDeploymentStatus") or "new", status.get("jobStatus") or ""
    state, details = deployment.lower(), (ray.lower(), status.get("rayClusterName") or "")
    messages = status.get("message") or "", status.get("reason") or ""
    why = None
    if deployment == "Retrying":
        text = f"a try failed, the next gets a new Ray cluster: {words.first_sentence(*messages)}"
        why = Why(text=text, bad=False)
    elif deployment == "ValidationFailed":
        state, why = (
            "rejected",
            words.explain(*messages, otherwise="the Ray operator rejects it: {}", remedy=_RAY_REJECTED),
        )
    elif deployment == "Complete" and ray == "STOPPED":
        state, why = "stopped", words.explain(*messages)
    elif deployment == "Failed":
        why = words.explain(*messages, remedy=_RAY_LOG)
    waits = deployment != "Complete" and ray != "RUNNING"
    return line("Ray job", _name(tree), state, *details, waits=waits, why=why)


def ray_cluster(tree: Object) -> Line:
    """A Ray cluster."""
    status = tree.get("status") or {}
    ready, wanted = status.get("readyWorkerReplicas") or 0, status.get("desiredWorkerReplicas") or 0
    provisioned = status.get("state") == "ready" or holds(tree, "RayClusterProvisioned")
    state = status.get("state") or ("ready" if provisioned else "starting")
    waits = not provisioned or ready < wanted
    return line("Ray cluster", _name(tree), state, f"{ready} of {wanted} workers ready", waits=waits)


def idle_ray(clusters: Sequence[Object], jobs: Sequence[Object]) -> Iterator[Line]:
    """A line for each shared Ray cluster with workers that runs no job."""
    busy: set[str] = set()
    for tree in jobs:
        status, selector = tree.get("status") or {}, (tree.get("spec") or {}).get("clusterSelector") or {}
        if status.get("jobDeploymentStatus") not in ("Complete", "Failed", "ValidationFailed"):
            busy |= {str(status.get("rayClusterName") or ""), str(selector.get("ray.io/cluster") or "")}
    for tree in clusters:
        owners = [owner.get("kind") for owner in tree["metadata"].get("ownerReferences") or ()]
        workers = (tree.get("status") or {}).get("readyWorkerReplicas") or 0
        if workers and "RayJob" not in owners and _name(tree) not in busy:
            text = "no job runs on it, and Google bills the nodes of its workers"
            remedy = "suspend it: docs/stacks/a4-ray.md#a-shared-ray-cluster"
            why = Why(text=text, remedy=remedy, bad=False)
            yield line("idle Ray cluster", _name(tree), f"{workers} workers", why=why)


# By the type token of the resource in the state. A RayJob creates a Ray cluster that no state has.
KINDS: Final[Mapping[str, Callable[[Object], Line]]] = {
    "kubernetes:batch/v1:Job": job,
    "kubernetes:apps/v1:Deployment": server,
    "kubernetes:ray.io/v1:RayJob": ray_job,
    "kubernetes:ray.io/v1:RayCluster": ray_cluster,
}


def queue(workloads: Sequence[Object]) -> Iterator[Line]:
    """Kueue's workloads that are not finished."""
    living = sorted((workload for workload in workloads if not holds(workload, "Finished")), key=_order)
    waiting = [workload for workload in living if not holds(workload, "QuotaReserved")]
    for workload in sorted(living, key=waiting.__contains__):
        spec = workload.get("spec") or {}
        priority = (spec.get("priorityClassRef") or {}).get("name", "")
        details = spec.get("queueName", ""), priority, capacity.capacity_of(workload)
        if capacity.moves(workload):
            state, why = "goes to other nodes", capacity.tried(workload)
        elif workload in waiting:
            state, why = f"number {waiting.index(workload) + 1} in the queue", _why_pending(workload)
        elif holds(workload, "Evicted"):
            # Kueue gets the quota back when the pods have gone. A training needs that time to save.
            text = "preempted by a higher priority" if _preempted(workload) else "evicted"
            state, why = "stopping", Why(text=text, bad=False)
        elif not holds(workload, "Admitted") and (requested := capacity.requested(workload)):
            state, why = "waits for all its nodes", requested
        else:
            state = "admitted" if holds(workload, "Admitted") else "quota reserved"
            why = None if holds(workload, "PodsReady") else capacity.tried(workload)
        yield line("queue", _name(workload), state, *details, why=why)


def _preempted(workload: Object) -> bool:
    return holds(workload, "Evicted") and condition_of(workload, "Evicted").get("reason") == "Preempted"


def _why_pending(workload: Object) -> Why:
    reserved = condition_of(workload, "QuotaReserved")
    message = str(reserved.get("message") or "")
    if (workload.get("spec") or {}).get("active") is False:
        return Why(text="it has been switched off", remedy="kubectl edit workload: spec.active")
    why = pending.why_pending(str(reserved.get("reason") or ""), message)
    if _preempted(workload):
        return Why(text=f"preempted by a higher priority; {why.text}", remedy=why.remedy, bad=why.bad)
    return why


def _job_failed(condition: Mapping[str, Any]) -> Why:
    reason = condition.get("reason") or ""
    if reason == "DeadlineExceeded":
        return Why(text="it ran longer than it may", remedy="raise maxRunHours, pulumi up")
    ended = re.search(r"exit code (\d+)", condition.get("message") or "")
    if reason == "PodFailurePolicy" and ended:
        end = EXIT_CODES.get(int(ended[1]))
        text = end.text if end else f"its program ended with exit code {ended[1]}"
        return Why(text=f"{text}; it is not tried again", remedy="its pod's log says what to change")
    return Why(
        text=words.first_sentence(condition.get("message") or "", reason),
        remedy="its pods' logs say why; a changed setting or recipe and pulumi up run it again",
    )


def _order(workload: Object) -> tuple[int, str, str]:
    """Kueue's own order: priority, then the time since it was created or evicted."""
    evicted = condition_of(workload, "Evicted")
    since = evicted.get("lastTransitionTime") if evicted.get("status") == "True" else None
    created = workload["metadata"].get("creationTimestamp") or ""
    return -int((workload.get("spec") or {}).get("priority") or 0), str(since or created), _name(workload)


def _name(tree: Object) -> str:
    return str(tree["metadata"]["name"])
