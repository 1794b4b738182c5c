"""Reads the present status of everything that works in a stack."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from cloud.services.cloudrun import JOB, SERVICE
from cloud.services.container import CLUSTER
from operations.errors import ODD_ANSWER, CallError, OperationError
from operations.google.clients import Clients
from operations.state import Resource, State
from operations.status import capacity, cloud_run, metrics, words, workloads
from operations.status.cluster import Cluster, Object, from_google
from operations.status.links import links
from operations.status.pods import cut_off, nodes, pods, refused, unused
from operations.status.report import Health, Line, Report, Why

# The report's words for a cluster that GKE does not know.
_GONE: Final = "GONE"
_CLASSES: Final = "/apis/cloud.google.com/v1/computeclasses"
_KUEUE: Final = "kueue.x-k8s.io"
# Lines at the end of a log, where the reason of a failure is.
_LOG_LINES: Final = "50"

Unseen = list[str]
# More lines about a stack, by its name.
More = Callable[[str, State, Clients, Cluster | None], Iterable[Line]]


def look(
    stack: str,
    state: State,
    clients: Clients,
    reached: Cluster | None = None,
    more: More = lambda *_: (),
) -> Report:
    """Returns the status. A part that cannot be read is named in the report and does not stop the rest.

    Args:
        reached: Replaces the cluster's own address if that does not work from here.
        more: Adds lines at the end.
    """
    unseen: Unseen = []
    lines: list[Line] = []
    for resource in state.of_type(CLUSTER.type):
        described: dict[str, Any] = {}
        with _noted("cluster", unseen):
            described = _described(clients, resource)
            lines.append(_gke("cluster", described))
            lines += _pools(described.get("nodePools") or (), unseen)
        if described.get("status") == _GONE or not (reached or described):
            continue
        with _noted("inside the cluster", unseen):
            cluster = reached or from_google(clients, described)
            workloads_ = state.of_type(*workloads.KINDS)
            namespaces = dict.fromkeys(resource.id.partition("/")[0] for resource in workloads_)
            lines += _inside(cluster, namespaces, unseen)
    for record, read in ((JOB, cloud_run.job), (SERVICE, cloud_run.service)):
        for resource in state.of_type(record.type):
            with _noted(resource.physical_name, unseen):
                lines.append(read(clients, resource.id))
    with _noted("served model", unseen):
        lines += more(stack, state, clients, reached)
    progress = None
    with _noted("metrics", unseen):
        progress = metrics.read(clients, state.outputs)
    return Report(
        stack=stack, lines=tuple(lines), progress=progress, unseen=tuple(unseen), links=links(state)
    )


def _described(clients: Clients, resource: Resource) -> dict[str, Any]:
    """The cluster as GKE describes it.

    Raises:
        CallError: When it cannot be read.
    """
    try:
        return clients.call("container.v1", "projects.locations.clusters.get", name=resource.id)
    except CallError as error:
        if error.missing:
            return {"name": resource.physical_name, "status": _GONE}
        raise


def _gke(kind: str, tree: dict[str, Any]) -> Line:
    """A line for a cluster or a node pool."""
    status = str(tree.get("status") or "")
    messages = [str(condition.get("message") or "") for condition in tree.get("conditions") or ()]
    messages.append(str(tree.get("statusMessage") or ""))
    bad = status in ("ERROR", "DEGRADED", "RUNNING_WITH_ERROR", _GONE)
    why = words.explain(*messages) if bad else words.plain(*messages)
    if status == _GONE:
        why = Why(text="it is in the state and not in the project", remedy="pulumi refresh")
    health = Health.GOOD if status == "RUNNING" else Health.WAITING
    if bad:
        health = Health.BAD
    return Line(kind=kind, name=str(tree["name"]), state=status.lower(), health=health, why=why)


def _pools(pools: Iterable[dict[str, Any]], unseen: Unseen) -> Iterator[Line]:
    """A line for each node pool that does not run."""
    for pool in pools:
        with _noted("node pool", unseen):
            if pool.get("status") != "RUNNING":
                yield _gke("node pool", pool)


def _inside(cluster: Cluster, namespaces: Iterable[str], unseen: Unseen) -> Iterator[Line]:
    """Lines for the nodes and for the workloads in the namespaces."""
    machines: list[Object] = []
    with _noted("nodes", unseen):
        machines = cluster.every("/api/v1/nodes")
        yield from _read("nodes", nodes, machines, unseen)
    with _noted("capacity", unseen):
        yield from _read("capacity", capacity.classes, cluster.every(_CLASSES), unseen)
    all_pods: list[Object] = []
    unread = {*namespaces}
    for namespace in namespaces:
        kinds: dict[str, list[Object]] = {}
        for token, read in workloads.KINDS.items():
            _, api, kind = token.split(":")
            plural = f"{kind.lower()}s"
            with _noted(plural, unseen):
                there = cluster.every(_path(namespace, f"apis/{api}", plural))
                sound = _sound(plural, partial(map, read), there, unseen)
                yield from map(read, sound)
                if len(sound) == len(there):
                    kinds[kind] = sound
        # A job that cannot be read may run on any Ray cluster.
        if {"RayCluster", "RayJob"} <= kinds.keys():
            with _noted("idle Ray clusters", unseen):
                yield from workloads.idle_ray(kinds["RayCluster"], kinds["RayJob"])
        with _noted("queue", unseen):
            queued = cluster.every(_path(namespace, f"apis/{_KUEUE}/v1beta2", "workloads"))
            yield from _read("queue", workloads.queue, queued, unseen)
        events: list[Object] = []
        with _noted("events", unseen):
            there = cluster.every(_path(namespace, "api/v1", "events"))
            events = _sound("events", refused, there, unseen)
            yield from refused(events)
        with _noted("pods", unseen):
            there = cluster.every(_path(namespace, "api/v1", "pods"))
            silent = cut_off(_sound("nodes", nodes, machines, []))
            look_alone = partial(pods, events=events, log=lambda *_: "", silent_nodes=silent)
            sound = _sound("pods", look_alone, there, unseen)
            yield from pods(sound, events, partial(_log, cluster), silent)
            all_pods += sound
            unread.remove(namespace)
    if not unread:
        with _noted("idle nodes", unseen):
            yield from unused(_sound("nodes", nodes, machines, []), all_pods)


def _read(
    what: str, read: Callable[[Sequence[Object]], Iterator[Line]], trees: Sequence[Object], unseen: Unseen
) -> Iterator[Line]:
    """The lines of the objects that can be read."""
    return read(_sound(what, read, trees, unseen))


def _sound(
    what: str, read: Callable[[Sequence[Object]], Iterator[Line]], trees: Sequence[Object], unseen: Unseen
) -> list[Object]:
    """The objects that can be read. The others are noted by name, so that one hides no other."""
    sound: list[Object] = []
    for tree in trees:
        try:
            _check_metadata(tree)
            list(read([tree]))
        except ODD_ANSWER as error:
            name = _name(tree)
            of_name = f" {name}" if name else ""
            unseen.append(f"{what}{of_name}: the answer is not understood ({type(error).__name__}: {error})")
        else:
            sound.append(tree)
    return sound


def _check_metadata(tree: Object) -> None:
    """Raises an error of `ODD_ANSWER` for an object whose name, uid or labels are no texts."""
    metadata = tree["metadata"]
    texts = metadata["name"], metadata.get("uid") or "", *(metadata.get("labels") or {}).values()
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("its metadata are no texts")


def _name(tree: Object) -> str:
    metadata = tree.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


@contextmanager
def _noted(what: str, unseen: Unseen) -> Generator[None]:
    """Notes what cannot be read, and goes on."""
    try:
        yield
    except OperationError as error:
        unseen.append(f"{what}: {error}")
    except ODD_ANSWER as error:
        # For example an object without a name: the server is not a Kubernetes API server.
        unseen.append(f"{what}: the answer is not understood ({type(error).__name__}: {error})")


def _path(namespace: str, api: str, plural: str) -> str:
    return f"/{api}/namespaces/{namespace}/{plural}"


def _log(cluster: Cluster, pod: Object, container: str) -> str:
    """The end of a container's log, empty if it cannot be read."""
    metadata = pod["metadata"]
    path = _path(metadata.get("namespace", "default"), "api/v1", f"pods/{metadata['name']}/log")
    running = (pod.get("status") or {}).get("phase") == "Running"
    previous = {"previous": "true"} if running else {}
    try:
        return cluster.text(path, container=container, tailLines=_LOG_LINES, **previous)
    except OperationError:
        return ""
