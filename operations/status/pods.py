"""Pods and nodes: how each is, and why it is not running."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cloud.machines import GPU_RESOURCE, TPU_RESOURCE
from operations.status import words
from operations.status.cluster import Object
from operations.status.report import Health, Line, Why

_POOL: Final = "cloud.google.com/gke-nodepool"
_MACHINE: Final = "node.kubernetes.io/instance-type"
# What the training ends with when its input is wrong, and when it was told to stop.
_BAD_INPUT: Final = 2
_TOLD_TO_STOP: Final = 143

Log = Callable[[Object, str], str]


def nodes(found: Sequence[Object]) -> Iterator[Line]:
    """A line for each pool and machine type."""
    pools: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
    for node in found:
        labels = node["metadata"].get("labels") or {}
        pools[labels.get(_POOL, "nodes"), labels.get(_MACHINE, "")].append(node)
    for (pool, machine), members in sorted(pools.items()):
        ready = sum(holds(node, "Ready") for node in members)
        allocatable = [(node.get("status") or {}).get("allocatable") or {} for node in members]
        chips = {
            name: sum(int(each.get(name, 0)) for each in allocatable) for name in (GPU_RESOURCE, TPU_RESOURCE)
        }
        detail = [machine, *(f"{count} {name}" for name, count in chips.items() if count)]
        yield Line(
            kind="nodes",
            name=pool,
            state=f"{ready} of {len(members)} ready",
            detail=", ".join(filter(None, detail)),
            health=Health.GOOD if ready == len(members) else Health.WAITING,
        )


def pods(found: Sequence[Object], events: Sequence[Object], log: Log) -> Iterator[Line]:
    """A line for each pod.

    Args:
        found: The pods.
        events: Events of their namespace.
        log: The end of the log of a container that has ended.
    """
    about: defaultdict[str, list[Object]] = defaultdict(list)
    for event in sorted(events, key=_time):
        about[(event.get("involvedObject") or {}).get("uid", "")].append(event)
    for pod in sorted(found, key=lambda each: each["metadata"]["name"]):
        yield _pod(pod, about[pod["metadata"].get("uid", "-")], log)


def holds(tree: Mapping[str, Any], condition: str) -> bool:
    """Whether a condition of an object's status holds."""
    return condition_of(tree, condition).get("status") == "True"


def condition_of(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A condition of an object's status; empty when it has none of that type."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == name), {})


def _pod(pod: Object, events: Sequence[Object], log: Log) -> Line:
    phase = (pod.get("status") or {}).get("phase", "Unknown")
    containers = _containers(pod)
    restarts = sum(int(each.get("restartCount", 0)) for each in containers)
    node = (pod.get("spec") or {}).get("nodeName", "")
    state, why = phase.lower(), None
    if pod["metadata"].get("deletionTimestamp"):
        state = "ending"
    elif phase in ("Pending", "Unknown"):
        why = _why_pending(pod, containers, events)
    elif phase == "Running" and not holds(pod, "Ready"):
        state, why = "starting", _why_not_ready(pod, containers, log)
    elif phase == "Failed":
        why = _why_failed(pod, containers, log)
    health = Health.GOOD
    if why or state in ("pending", "starting", "ending", "unknown"):
        health = Health.BAD if why and why.bad else Health.WAITING
    return Line(
        kind="pod",
        name=pod["metadata"]["name"],
        state=state,
        detail=", ".join(filter(None, [node, f"{restarts} restarts" if restarts else ""])),
        health=health,
        why=why,
    )


def _why_pending(pod: Object, containers: Sequence[Object], events: Sequence[Object]) -> Why:
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        found = words.waiting(waiting.get("reason", ""), waiting.get("message", ""))
        if found:
            return found
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("reason") == "SchedulingGated":
        return Why(text="waits in the queue: Kueue has not admitted it", bad=False)
    if scheduled.get("status") == "True":
        return _why_starting(events)
    return _why_unscheduled(scheduled, events)


def _why_unscheduled(scheduled: Mapping[str, Any], events: Sequence[Object]) -> Why:
    """The autoscaler's newest word weighs more than the scheduler's, which only knows the nodes there are."""
    for event in reversed(events):
        reason, message = event.get("reason"), event.get("message") or ""
        if reason == "TriggeredScaleUp":
            return Why(text="a node is being made for it", bad=False)
        if reason == "FailedScaleUp":
            failed = words.first_sentence([message])
            return words.plain(message) or Why(text=f"no node could be made: {failed}")
        if reason == "NotTriggerScaleUp":
            return words.no_node_to_make(message)
    return words.unschedulable(scheduled.get("message") or _message(events, "FailedScheduling"))


def _why_starting(events: Sequence[Object]) -> Why:
    for event in reversed(events):
        if event.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"):
            message = event.get("message") or ""
            failed = words.first_sentence([message])
            return words.plain(message) or Why(text=f"it cannot be set up: {failed}")
        if event.get("reason") == "Pulling":
            return Why(text="its image is being pulled", bad=False)
    return Why(text="its containers are being made", bad=False)


def _why_not_ready(pod: Object, containers: Sequence[Object], log: Log) -> Why:
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff":
            ended = (container.get("lastState") or {}).get("terminated") or {}
            return _why_ended(pod, container, ended, log)
        found = words.waiting(waiting.get("reason", ""), waiting.get("message", ""))
        if found:
            return found
    return Why(text="it runs and does not answer yet", bad=False)


def _why_failed(pod: Object, containers: Sequence[Object], log: Log) -> Why:
    status = pod.get("status") or {}
    if status.get("reason") in ("Evicted", "Preempted", "NodeLost", "Shutdown", "Terminated"):
        message = status.get("message") or ""
        return words.plain(message) or Why(
            text=f"the node gave it up: {words.first_sentence([message])}", bad=False
        )
    for container in containers:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return _why_ended(pod, container, ended, log)
    return Why(text=f"it failed: {words.first_sentence([status.get('message') or ''])}")


def _why_ended(pod: Object, container: Object, ended: Mapping[str, Any], log: Log) -> Why:
    """Why a container ended. Its log is searched for known words and never shown: it is not ours to print."""
    code = ended.get("exitCode", 0)
    if ended.get("reason") == "OOMKilled":
        return Why(text="it needed more memory than its limit", remedy="raise memory in the manifest")
    if code == _TOLD_TO_STOP:
        return Why(text="it was told to stop, and saved", bad=False)
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    found = words.plain(ended.get("message") or "", log(pod, container.get("name", "")))
    if found:
        return found
    what = "its input is wrong" if code == _BAD_INPUT else f"it ended with exit code {code}"
    return Why(text=what, remedy=f"kubectl --namespace {namespace} logs {name}")


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _message(events: Sequence[Object], reason: str) -> str:
    found = (event.get("message") or "" for event in reversed(events) if event.get("reason") == reason)
    return next(found, "")


def _time(event: Object) -> str:
    """When an event happened last; RFC 3339 in UTC sorts as text."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((time for time in times if time), event["metadata"].get("creationTimestamp") or "")
