"""Jobs, servers and Ray, and what Kueue has decided about them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from operations.status import words
from operations.status.cluster import Object
from operations.status.pods import condition_of, holds
from operations.status.report import Health, Line, Why

_PREEMPTED: Final = "Preempted"


def jobs(found: Sequence[Object]) -> Iterator[Line]:
    """Kubernetes Jobs."""
    for job in found:
        status, spec = job.get("status") or {}, job.get("spec") or {}
        wanted = spec.get("completions") or 1
        done = f"{status.get('succeeded', 0)} of {wanted} pods done"
        failed = condition_of(job, "Failed")
        if holds(job, "Complete"):
            yield Line(kind="job", name=_name(job), state="complete", detail=done)
        elif holds(job, "Failed"):
            yield Line(
                kind="job",
                name=_name(job),
                state="failed",
                detail=done,
                health=Health.BAD,
                why=_job_failed(failed),
            )
        elif spec.get("suspend"):
            yield Line(kind="job", name=_name(job), state="suspended", health=Health.WAITING)
        else:
            active = f"{status.get('active', 0)} of {spec.get('parallelism', 1)} pods"
            waiting = not status.get("ready")
            yield Line(
                kind="job",
                name=_name(job),
                state="starting" if waiting else "running",
                detail=active,
                health=Health.WAITING if waiting else Health.GOOD,
            )


def servers(found: Sequence[Object]) -> Iterator[Line]:
    """Deployments."""
    for deployment in found:
        wanted = (deployment.get("spec") or {}).get("replicas", 1)
        ready = (deployment.get("status") or {}).get("readyReplicas", 0)
        yield Line(
            kind="server",
            name=_name(deployment),
            state=f"{ready} of {wanted} ready",
            health=Health.GOOD if ready >= wanted else Health.WAITING,
        )


def ray_jobs(found: Sequence[Object]) -> Iterator[Line]:
    """RayJobs of KubeRay: `jobDeploymentStatus` is the operator's view, `jobStatus` Ray's."""
    for job in found:
        status = job.get("status") or {}
        deployment, ray = status.get("jobDeploymentStatus") or "", status.get("jobStatus") or ""
        message = status.get("message") or ""
        failed = deployment == "Failed" or ray in ("FAILED", "STOPPED")
        done = deployment == "Complete" and not failed
        why = None
        if failed:
            said = words.first_sentence([message, status.get("reason") or ""])
            why = words.plain(message) or Why(
                text=said, remedy="the stack's output watchTraining shows its log"
            )
        yield Line(
            kind="Ray job",
            name=_name(job),
            state="failed" if failed else "complete" if done else (deployment or "new").lower(),
            detail=", ".join(filter(None, [ray.lower(), status.get("rayClusterName") or ""])),
            health=Health.BAD if failed else Health.GOOD if done or ray == "RUNNING" else Health.WAITING,
            why=why,
        )


def ray_clusters(found: Sequence[Object]) -> Iterator[Line]:
    """Ray clusters."""
    for cluster in found:
        status = cluster.get("status") or {}
        ready, wanted = status.get("readyWorkerReplicas", 0), status.get("desiredWorkerReplicas", 0)
        provisioned = status.get("state") == "ready" or holds(cluster, "RayClusterProvisioned")
        yield Line(
            kind="Ray cluster",
            name=_name(cluster),
            state=status.get("state") or ("ready" if provisioned else "starting"),
            detail=f"{ready} of {wanted} workers ready",
            health=Health.GOOD if provisioned and ready >= wanted else Health.WAITING,
        )


def queue(found: Sequence[Object], positions: Mapping[str, int] | None) -> Iterator[Line]:
    """Kueue's workloads that are not finished.

    Args:
        found: The workloads.
        positions: Place in the cluster's queue by name, from zero, as Kueue itself counts; None when it
            does not say.
    """
    living = [each for each in found if not holds(each, "Finished")]
    pending = sorted((each for each in living if not holds(each, "QuotaReserved")), key=_order)
    places = positions or {_name(each): place for place, each in enumerate(pending)}
    for workload in sorted(living, key=lambda each: (each in pending, *_order(each))):
        spec = workload.get("spec") or {}
        detail = ", ".join(
            filter(None, [spec.get("queueName", ""), (spec.get("priorityClassRef") or {}).get("name", "")])
        )
        if workload not in pending:
            yield _in_quota(workload, detail)
            continue
        place = places.get(_name(workload))
        yield Line(
            kind="queue",
            name=_name(workload),
            state=f"number {place + 1} in the queue" if place is not None else "pending",
            detail=detail,
            health=Health.WAITING,
            why=_why_pending(workload),
        )


def _in_quota(workload: Object, detail: str) -> Line:
    name = _name(workload)
    # Kueue takes the quota back when the pods have gone, which training gives its time to save.
    if holds(workload, "Evicted"):
        why = Why(text="pre-empted by a higher priority" if _preempted(workload) else "evicted", bad=False)
        return Line(kind="queue", name=name, state="stopping", detail=detail, health=Health.WAITING, why=why)
    state = "admitted" if holds(workload, "Admitted") else "quota reserved"
    return Line(kind="queue", name=name, state=state, detail=detail)


def _preempted(workload: Object) -> bool:
    return holds(workload, "Evicted") and condition_of(workload, "Evicted").get("reason") == _PREEMPTED


def _why_pending(workload: Object) -> Why:
    reserved = condition_of(workload, "QuotaReserved")
    message = str(reserved.get("message") or "")
    if (workload.get("spec") or {}).get("active") is False:
        return Why(text="it has been switched off", remedy="kubectl edit workload: spec.active")
    if reserved.get("reason") == "Inadmissible" or "doesn't exist" in message or "inactive" in message:
        return Why(text=f"the queue does not take it: {words.first_sentence([message])}", remedy="pulumi up")
    short = "waits for quota in the queue"
    if "insufficient unused quota" in message or "insufficient quota" in message:
        short += f": {words.first_sentence([message])}"
    if _preempted(workload):
        return Why(text=f"pre-empted by a higher priority; {short}", bad=False)
    return Why(text=short, bad=False)


def _job_failed(condition: Mapping[str, Any]) -> Why:
    reason = condition.get("reason") or ""
    if reason == "DeadlineExceeded":
        return Why(text="it ran longer than it may", remedy="raise maxRunHours, pulumi up")
    if reason == "PodFailurePolicy":
        return Why(text="its input is wrong, so it is not tried again", remedy="its pod's log says what")
    said = words.first_sentence([condition.get("message") or "", reason])
    return Why(
        text=said, remedy="its pods' logs say why; a changed setting or recipe and pulumi up run it again"
    )


def _order(workload: Object) -> tuple[int, str, str]:
    """Kueue's own order: priority, then how long it has waited since it was made or evicted."""
    evicted = condition_of(workload, "Evicted")
    since = evicted.get("lastTransitionTime") if evicted.get("status") == "True" else None
    created = workload["metadata"].get("creationTimestamp") or ""
    return -int((workload.get("spec") or {}).get("priority") or 0), str(since or created), _name(workload)


def _name(tree: Object) -> str:
    return str(tree["metadata"]["name"])
