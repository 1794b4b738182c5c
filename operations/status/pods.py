"""The status of pods and nodes, and why one does not run."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cloud.machines import GPU_RESOURCE, TPU_RESOURCE
from operations.status import words
from operations.status.cluster import Object
from operations.status.report import Line, Why, line
from workloads.shared.exit_codes import EXIT_CODES, Exit, Retry

_POOL: Final = "cloud.google.com/gke-nodepool"
MACHINE: Final = "node.kubernetes.io/instance-type"
_ACCELERATORS: Final = (GPU_RESOURCE, TPU_RESOURCE)
# The container of a trial, and the beginning of the line that says why a run would fail.
_TRIAL, _ERROR = "trial", "error: "
# A Job's pod has this finalizer until the Job has counted how the pod ended.
_JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"

# What a container waits for that will start. Any other reason is one for which it does not.
_ABOUT_TO_START: Final = ("ContainerCreating", "PodInitializing", "")
# How a container ended that never ran, so it has no log.
_NEVER_RAN: Final = ("StartError", "ContainerCannotRun")

Log = Callable[[Object, str], str]
# Returns the meaning of an event from its message.
_Meanings = Mapping[str, Callable[[str], Why]]


def nodes(trees: Sequence[Object]) -> Iterator[Line]:
    """A line for each node pool and machine type."""
    pools: defaultdict[tuple[str, str], list[Object]] = defaultdict(list)
    for node in trees:
        labels = node["metadata"].get("labels") or {}
        pools[labels.get(_POOL, "nodes"), labels.get(MACHINE, "")].append(node)
    for (pool, machine), members in sorted(pools.items()):
        ready = sum(holds(node, "Ready") for node in members)
        allocatable = [(node.get("status") or {}).get("allocatable") or {} for node in members]
        details = [machine]
        for name in _ACCELERATORS:
            if count := sum(int(resources.get(name, 0)) for resources in allocatable):
                details.append(f"{count} {name}")
        state = f"{ready} of {len(members)} ready"
        yield line("nodes", pool, state, *details, waits=ready < len(members))


def cut_off(nodes: Sequence[Object]) -> frozenset[str]:
    """Names of the nodes that do not answer."""
    return frozenset(node["metadata"]["name"] for node in nodes if not holds(node, "Ready"))


def unused(nodes: Sequence[Object], pods: Sequence[Object]) -> Iterator[Line]:
    """A line for each node pool with accelerators that no pod of the stack uses, or is about to use."""
    asking = [pod for pod in pods if _asks(pod) and _phase(pod) in ("Pending", "Running", "Unknown")]
    busy = {str((pod.get("spec") or {}).get("nodeName") or "") for pod in asking}
    if "" in busy:
        return
    pools: defaultdict[str, int] = defaultdict(int)
    for node in nodes:
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        if node["metadata"]["name"] not in busy and any(int(allocatable.get(it, 0)) for it in _ACCELERATORS):
            pools[(node["metadata"].get("labels") or {}).get(_POOL, "nodes")] += 1
    for pool, count in sorted(pools.items()):
        text = "no pod of the stack uses their accelerators, and Google bills them"
        why = Why(text=text, remedy='docs/README.md, "Stop paying"', bad=False)
        yield line("idle nodes", pool, f"{count} of the pool", why=why)


def _asks(pod: Object) -> bool:
    """Whether a pod asks for accelerators."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    limits = [(container.get("resources") or {}).get("limits") or {} for container in containers]
    return any(name in limit for limit in limits for name in _ACCELERATORS)


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Unknown")


def pods(
    trees: Sequence[Object], events: Sequence[Object], log: Log, silent_nodes: frozenset[str] = frozenset()
) -> Iterator[Line]:
    """A line for each pod, from the events of its namespace and the end of an ended container's log.

    A pod that is being deleted may wait for one of `silent_nodes`.
    """
    about = _newest_first(events)
    for pod in sorted(trees, key=lambda tree: str(tree["metadata"]["name"])):
        yield _pod(pod, about[pod["metadata"].get("uid", "-")], log, silent_nodes)


def refused(events: Sequence[Object]) -> Iterator[Line]:
    """A line for each Job whose pods the API server refuses, for example by a quota or a policy."""
    for about in _newest_first(events).values():
        newest = about[0]
        owner = newest.get("involvedObject") or {}
        if owner.get("kind") == "Job" and newest.get("reason") == "FailedCreate":
            why = words.explain(
                str(newest.get("message") or ""),
                otherwise="the API server refuses them: {}",
                remedy="change the setting or manifest that the message names, then pulumi up",
            )
            yield line("pods of the job", str(owner.get("name") or ""), "none", why=why)


def _newest_first(events: Sequence[Object]) -> Mapping[str, list[Object]]:
    """The events of each object, by its uid."""
    about: defaultdict[str, list[Object]] = defaultdict(list)
    for event in sorted(events, key=_time, reverse=True):
        about[str((event.get("involvedObject") or {}).get("uid") or "")].append(event)
    return about


def holds(tree: Mapping[str, Any], condition: str) -> bool:
    """Whether a condition of an object's status holds."""
    return condition_of(tree, condition).get("status") == "True"


def condition_of(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A condition of an object's status, empty if it has none of that type."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == name), {})


def _pod(pod: Object, events: Sequence[Object], log: Log, silent_nodes: frozenset[str]) -> Line:
    status = pod.get("status") or {}
    phase = _phase(pod)
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    state, why = phase.lower(), None
    if pod["metadata"].get("deletionTimestamp"):
        state, why = "ending", _why_ending(pod, silent_nodes)
    elif phase in ("Pending", "Unknown"):
        why = _why_waiting(pod, containers, log) or _why_pending(pod, events)
    elif phase == "Running" and not holds(pod, "Ready"):
        state = "starting"
        running = Why(text="it runs and does not answer yet", bad=False)
        why = _why_waiting(pod, containers, log) or running
    elif phase == "Failed":
        why = _why_failed(pod, containers, log)
    restarts = sum(int(container.get("restartCount", 0)) for container in containers)
    details = (pod.get("spec") or {}).get("nodeName", ""), f"{restarts} restarts" if restarts else ""
    return line("pod", pod["metadata"]["name"], state, *details, waits=state == "ending", why=why)


def _why_ending(pod: Object, silent_nodes: frozenset[str]) -> Why | None:
    """Why a Job's pod stays on a dead node. Without a word on its end the Job makes no other pod."""
    node = (pod.get("spec") or {}).get("nodeName", "")
    if node not in silent_nodes or _JOB_TRACKING not in (pod["metadata"].get("finalizers") or ()):
        return None
    text = f"its Job waits for node {node}, which is cut off: another pod comes when the node object goes"
    remedy = f"wait for GKE to repair the node, or, once it is certainly gone: kubectl delete node {node}"
    return Why(text=text, remedy=remedy, bad=False)


def _why_waiting(pod: Object, containers: Sequence[Object], log: Log) -> Why | None:
    """Why a container waits, None if it is just starting."""
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if not waiting:
            continue
        if waiting.get("reason") == "CrashLoopBackOff":
            ended = (container.get("lastState") or {}).get("terminated") or {}
            return _why_ended(pod, container, ended, log)
        if why := _why_not_started(pod, waiting.get("reason") or "", waiting.get("message") or ""):
            return why
    return None


def _why_not_started(pod: Object, reason: str, message: str) -> Why | None:
    """Why the kubelet cannot start a container, None if it is about to. It tries again, mostly in vain."""
    if reason in _ABOUT_TO_START:
        return words.plain(message)
    text = f"its container cannot start ({reason or 'no reason given'}): {{}}"
    return words.plain(message, reason) or words.explain(message, otherwise=text, remedy=_describe(pod))


def _why_pending(pod: Object, events: Sequence[Object]) -> Why:
    """The autoscaler's newest event counts more than the scheduler's, which knows only the existing nodes."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("reason") == "SchedulingGated":
        return Why(text="waits in the queue: Kueue has not admitted it", bad=False)
    if scheduled.get("status") == "True":
        return _newest(events, _STARTING) or Why(text="its containers are being made", bad=False)
    return _newest(events, _SCALING) or words.unschedulable(scheduled.get("message") or "")


_STARTING: Final[_Meanings] = {
    "Pulling": lambda _: Why(text="its image is being pulled", bad=False),
    **dict.fromkeys(
        ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"),
        lambda message: words.explain(message, otherwise="it cannot be set up: {}"),
    ),
}
_SCALING: Final[_Meanings] = {
    "TriggeredScaleUp": lambda _: Why(text="a node is being made for it", bad=False),
    "FailedScaleUp": lambda message: words.explain(message, otherwise="no node could be made: {}"),
    "NotTriggerScaleUp": words.no_node_to_make,
}


def _newest(events: Sequence[Object], meanings: _Meanings) -> Why | None:
    """The meaning of the newest event that has one."""
    for event in events:
        if meaning := meanings.get(str(event.get("reason"))):
            return meaning(str(event.get("message") or ""))
    return None


def _why_failed(pod: Object, containers: Sequence[Object], log: Log) -> Why:
    status = pod.get("status") or {}
    message = status.get("message") or ""
    if status.get("reason") in ("Evicted", "Preempted", "NodeLost", "Shutdown", "Terminated"):
        return words.explain(message, otherwise="the node gave it up: {}", bad=False)
    for container in containers:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return _why_ended(pod, container, ended, log)
    return Why(text=f"it failed: {words.first_sentence(message)}")


def _why_ended(pod: Object, container: Object, ended: Mapping[str, Any], log: Log) -> Why:
    """Why a container ended. A trial says it in a line.

    The log of a training is searched for known words and never shown: it is the user's.
    """
    code = ended.get("exitCode", 0)
    if ended.get("reason") == "OOMKilled":
        return Why(text="it needed more memory than its limit", remedy="raise memory in the manifest")
    if ended.get("reason") in _NEVER_RAN:
        text = "its program could not be started: {}"
        return words.explain(ended.get("message") or "", otherwise=text, remedy=_describe(pod))
    end = EXIT_CODES.get(code)
    if end and end.retry is Retry.NOT_COUNTED:
        return Why(text=end.text, bad=False)
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    if code == Exit.BAD_INPUT and container.get("name") == _TRIAL and (reason := _reason(ended)):
        return Why(text=f"the run would fail: {reason}", remedy="change what it names, pulumi up")
    return words.explain(
        ended.get("message") or "",
        log(pod, container.get("name", "")),
        otherwise=end.text if end and end.retry is Retry.NONE else f"it ended with exit code {code}",
        remedy=f"kubectl --namespace {namespace} logs {name}",
    )


def _describe(pod: Object) -> str:
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    return f"kubectl --namespace {namespace} describe pod {name}"


def _reason(ended: Mapping[str, Any]) -> str:
    """The last line of a trial, which the error of `up` has too. It is about the recipe."""
    lines = (ended.get("message") or "").strip().splitlines()
    reason = lines[-1] if lines and lines[-1].startswith(_ERROR) else ""
    return reason.removeprefix(_ERROR)


def _time(event: Object) -> str:
    """When an event happened last, as RFC 3339 in UTC, which sorts as text."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next((time for time in (*times, created) if time), ""))
