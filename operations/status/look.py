"""One look at everything of a stack that works."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from cloud.container import CLUSTER
from cloud.run import JOB, SERVICE
from operations.clients import Clients
from operations.errors import CallError, OperationError
from operations.state import Resource, State
from operations.status import cloud_run, metrics, words, workloads
from operations.status.cluster import Cluster, Object, from_google, from_kubeconfig
from operations.status.pods import nodes, pods
from operations.status.report import Health, Line, Report, Why

_WORKLOADS: Final = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:batch/v1:Job",
    "kubernetes:ray.io/v1:RayCluster",
    "kubernetes:ray.io/v1:RayJob",
)
_KUEUE: Final = "kueue.x-k8s.io"
# The end of a log, where the reason of a failure is.
_LOG_LINES: Final = "50"

Unseen = list[str]


class Look:
    """Looks at a stack, again and again if need be.

    Args:
        stack: Name of the stack.
        state: Its state.
        clients: Google's APIs.
        kubeconfig: How to reach its cluster, where GKE's own answer does not do.
    """

    def __init__(self, stack: str, state: State, clients: Clients, kubeconfig: Path | None = None) -> None:
        self._stack = stack
        self._state = state
        self._clients = clients
        # A file that is none is said at once, before anything is drawn.
        self._given = from_kubeconfig(kubeconfig) if kubeconfig else None

    def report(self) -> Report:
        """What there is now; what cannot be looked at is named and does not stop the rest."""
        unseen: Unseen = []
        lines: list[Line] = []
        for resource in self._state.of_type(CLUSTER.type):
            lines += self._gke(resource, unseen)
        for resource in self._state.of_type(JOB.type):
            lines += _seen("job", unseen, lambda each=resource: cloud_run.job(self._clients, each.id))
        for resource in self._state.of_type(SERVICE.type):
            lines += _seen("service", unseen, lambda each=resource: cloud_run.service(self._clients, each.id))
        progress = _seen("metrics", unseen, self._progress)
        return Report(
            stack=self._stack,
            lines=tuple(lines),
            progress=progress[0] if progress else None,
            unseen=tuple(unseen),
        )

    def _progress(self) -> Iterator[metrics.Progress]:
        address = metrics.address(self._state.outputs)
        progress = metrics.read_progress(self._clients, *address) if address else None
        if progress:
            yield progress

    def _gke(self, resource: Resource, unseen: Unseen) -> Iterator[Line]:
        """The cluster, its pools, and what is in it."""
        described: dict[str, Any] = {}
        try:
            described = self._clients.call(
                "container.v1", "projects.locations.clusters.get", name=resource.id
            )
            yield from _described(described)
        except CallError as error:
            if error.missing:
                why = Why(text="it is in the state and not in the project", remedy="pulumi refresh")
                name = resource.physical_name
                yield Line(kind="cluster", name=name, state="gone", health=Health.BAD, why=why)
                return
            unseen.append(f"cluster: {error}")
        try:
            cluster = self._given or from_google(self._clients, described)
        except OperationError as error:
            if described:
                unseen.append(f"inside the cluster: {error}")
            return
        yield from self._inside(cluster, unseen)

    def _inside(self, cluster: Cluster, unseen: Unseen) -> Iterator[Line]:
        def every(path: str, **query: str) -> list[Object]:
            return _seen(path, unseen, lambda: cluster.every(path, **query))

        yield from _seen("nodes", unseen, lambda: nodes(every("/api/v1/nodes")))
        for namespace in self._namespaces():
            of = partial(_path, namespace)
            for api, plural, lines in (
                ("apis/batch/v1", "jobs", workloads.jobs),
                ("apis/apps/v1", "deployments", workloads.servers),
                ("apis/ray.io/v1", "rayjobs", workloads.ray_jobs),
                ("apis/ray.io/v1", "rayclusters", workloads.ray_clusters),
            ):
                yield from _seen(plural, unseen, partial(lines, every(of(api, plural))))
            found = every(of(f"apis/{_KUEUE}/v1beta2", "workloads"))
            positions = _positions(cluster, namespace, found)
            yield from _seen("workloads", unseen, partial(workloads.queue, found, positions))
            members, events = every(of("api/v1", "pods")), every(of("api/v1", "events"))
            yield from _seen("pods", unseen, partial(pods, members, events, partial(_log, cluster)))

    def _namespaces(self) -> list[str]:
        """Where the stack's workloads are."""
        found = (each.id.partition("/")[0] for each in self._state.of_type(*_WORKLOADS))
        return list(dict.fromkeys(found))


def _described(cluster: dict[str, Any]) -> Iterator[Line]:
    """Line for a cluster that is not as it should be, and for each such pool of it."""
    pools = [("node pool", pool) for pool in cluster.get("nodePools") or ()]
    for kind, each in (("cluster", cluster), *pools):
        status = str(each.get("status") or "")
        if kind == "node pool" and status == "RUNNING":
            continue
        said = [str(part.get("message") or "") for part in each.get("conditions") or ()]
        said.append(str(each.get("statusMessage") or ""))
        bad = status in ("ERROR", "DEGRADED", "RUNNING_WITH_ERROR")
        why = words.plain(*said) if any(said) else None
        if bad and not why:
            why = Why(text=words.first_sentence(said))
        health = Health.BAD if bad else Health.GOOD if status == "RUNNING" else Health.WAITING
        yield Line(kind=kind, name=each["name"], state=status.lower(), health=health, why=why)


def _seen(what: str, unseen: Unseen, ask: Callable[[], Iterable[Any]]) -> list[Any]:
    """What is asked for; nothing, and a note, when it cannot be had or read."""
    try:
        return [*ask()]
    except OperationError as error:
        unseen.append(f"{what}: {error}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # An object without a name, a number that is none: the server is not what we take it for.
        unseen.append(f"{what}: the answer is not understood ({type(error).__name__}: {error})")
    return []


def _path(namespace: str, api: str, plural: str) -> str:
    return f"/{api}/namespaces/{namespace}/{plural}"


def _positions(cluster: Cluster, namespace: str, found: list[Object]) -> dict[str, int] | None:
    """Places in the queue as Kueue counts them; None where its visibility API is off or refused."""
    queues = {str((each.get("spec") or {}).get("queueName") or "") for each in found} - {""}
    places: dict[str, int] = {}
    for name in sorted(queues):
        path = _path(namespace, f"apis/visibility.{_KUEUE}/v1beta2", f"localqueues/{name}/pendingworkloads")
        try:
            pending = cluster.every(path)
            places |= {each["metadata"]["name"]: int(each["positionInClusterQueue"]) for each in pending}
        except (CallError, KeyError, TypeError, ValueError):
            return None
    return places or None


def _log(cluster: Cluster, pod: Object, container: str) -> str:
    """The end of a container's log; empty when it cannot be had."""
    metadata = pod["metadata"]
    path = _path(metadata.get("namespace", "default"), "api/v1", f"pods/{metadata['name']}/log")
    running = (pod.get("status") or {}).get("phase") == "Running"
    previous = {"previous": "true"} if running else {}
    try:
        return cluster.text(path, container=container, tailLines=_LOG_LINES, **previous)
    except OperationError:
        return ""
