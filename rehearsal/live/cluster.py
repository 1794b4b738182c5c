"""The GKE cluster of a rehearsed stack, on a local control plane.

The nodes are simulated (`control_plane/nodes.py`), and so are the pods if their commands do not run.
The objects that GKE itself installs are missing.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from cloud.services.kubernetes import is_awaited
from rehearsal.control_plane import readiness
from rehearsal.control_plane.api import Api, ApiError, Object, WaitError, until
from rehearsal.control_plane.capacity_keeper import is_keeper
from rehearsal.control_plane.cluster import ControlPlane
from rehearsal.control_plane.kueue_release import CHART
from rehearsal.control_plane.kwok import end
from rehearsal.control_plane.programs import KUEUE
from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import CLUSTER, FakeCloud, Rejected
from rehearsal.fakes.kubernetes import RAY_ENDS
from rehearsal.nodes.node_simulator import NodeSimulator
from rehearsal.nodes.shapes import needs_accelerators
from rehearsal.stock import capacity_of

_T = TypeVar("_T")
# Seconds until pods run, objects are deleted and the like. Here that takes a second or two.
_TIMEOUT: Final = 60.0
# The same if pods run their commands: they train, and use their grace periods.
_LONGEST_RUN: Final = 300.0
# The same for a job that goes through a list of capacities.
_SEARCH: Final = 300.0
_NOT_FOUND: Final = 404
# Kinds whose objects the control plane creates and deletes by itself.
_TRANSIENT: Final = ("Event", "Lease", "EndpointSlice", "Endpoints")


class LiveCluster:
    """The cluster that the fake Kubernetes provider writes to.

    Args:
        plane: A running control plane.
        cloud: The fake cloud, with the cluster and its node pools.

    Attributes:
        plane: The control plane, and `api` its API server.
        written: The number of objects that were created or updated.
        nodes: The thread that adds and removes the nodes.
    """

    def __init__(self, plane: ControlPlane, cloud: FakeCloud) -> None:
        self.plane = plane
        self.api: Api = plane.api
        self._cloud = cloud
        self._stopped = threading.Event()
        # By path, in the order of their creation.
        self._applied: dict[str, Object] = {}
        self._before = self.inventory()
        self._timeout = _LONGEST_RUN if plane.runs_pods else _TIMEOUT
        self.nodes = NodeSimulator(self.api, cloud)
        self.written = 0

    def stop(self) -> None:
        """Interrupts everything that waits, also in the future."""
        self._stopped.set()
        self.plane.capacity_keeper.stop()
        self.nodes.stop()

    def write(self, tree: Object, *, new: bool, force: bool) -> tuple[Object, str]:
        """Creates or updates an object, and waits for it where Pulumi does.

        Args:
            tree: The object.
            new: Whether it must not exist yet. Since 4.29 the provider takes over no existing object, except
                with `upsertExistingObjects`: https://github.com/pulumi/pulumi-kubernetes/pull/4278.
            force: Whether to take over fields of other writers.

        Returns:
            The object afterwards, and why it is not ready, empty if it is.

        Raises:
            ApiError: With the API server's message.
        """
        path = self.api.path_of(tree)
        if new and self.api.get(tree):
            kind, name = path.rsplit("/", 2)[1:]
            raise ApiError(409, f'{kind} "{name}" already exists')
        keeper = is_keeper(tree)
        if keeper and self.plane.runs_pods:
            # Its pod could not reach the API server, which listens on the loopback interface alone.
            tree = {**tree, "spec": {**tree["spec"], "replicas": 0}}
        live = self._applied[path] = self.api.apply(tree, force=force)
        self.written += 1
        if keeper:
            self.plane.capacity_keeper.start(live)
            self._timeout = max(self._timeout, _SEARCH)  # a job tries one capacity after the other
        check = readiness.awaited(tree)
        if check is None:
            return live, ""

        def reason() -> str:
            nonlocal live
            live = self.api.get(tree) or live
            return check(self.api, live)

        def is_ready() -> bool:
            if not self.plane.runs_pods:
                self._end(live)
            return not reason()

        name = f"{tree['kind']} {live['metadata'].get('namespace', '')}/{live['metadata']['name']}"
        try:
            self._until(lambda: f"{name}: {reason()}", is_ready, self._timeout)
        except RehearsalError as error:
            return live, str(error)
        return live, ""

    def delete(self, *trees: Mapping[str, Any]) -> None:
        """Deletes objects and what they own, and waits until all of it is gone.

        Raises:
            WaitError: If an object still exists after the timeout. The message names its finalizers.
        """
        for tree in trees:
            self.api.delete(tree)
            if is_keeper(tree):
                self.plane.capacity_keeper.stop()

        def is_gone() -> bool:
            if not any(self._cloud.of_type(CLUSTER)):
                # The nodes are gone with the cluster, so pods have no grace period.
                for pod in self.api.list("v1", "Pod"):
                    if "deletionTimestamp" in pod["metadata"]:
                        self.api.delete(pod, ended=True)
            return not any(map(self.api.get, trees))

        self._until(lambda: self._held(trees), is_gone, self._timeout * len(trees))
        for tree in trees:
            self._applied.pop(self.api.path_of(tree), None)

    def install(self, release: Mapping[str, Any]) -> None:
        """Installs Kueue's Helm release.

        Raises:
            RehearsalError: If the release is wrong, or has another chart.
        """
        chart = str(release.get("chart")).rpartition("/")[2]
        if chart != CHART:
            raise Rejected(f"the Helm chart {chart} cannot be installed here: only Kueue's can")
        wanted = str(release.get("version") or KUEUE.version)
        if wanted.removeprefix("v") != KUEUE.version.removeprefix("v"):
            raise Rejected(
                f"the local control plane has Kueue {KUEUE.version}, the release wants {wanted}; "
                "pin one version in the stack and in tools/kueue/go.mod"
            )
        self.plane.kueue.install(release.get("values") or {}, str(release.get("namespace") or "default"))

    def sweep(self) -> None:
        """Deletes all objects of the cluster, as the deletion of a GKE cluster does.

        Raises:
            WaitError: If an object cannot be deleted.
        """
        applied = list(self._applied.values())
        self.delete(*(tree for tree in reversed(applied) if tree["kind"] != "Namespace"))
        self.plane.kueue.uninstall()
        self.delete(*(tree for tree in applied if tree["kind"] == "Namespace"))
        self.nodes.clear()

    def left(self) -> list[str]:
        """The objects that did not exist at the beginning. Waits some time until there are none."""
        with contextlib.suppress(WaitError):
            self._until(lambda: "an empty cluster", lambda: self.inventory() <= self._before)
        return sorted(self.inventory() - self._before)

    def inventory(self) -> set[str]:
        """Kind, namespace and name of every object in the API server.

        For a moment the API server still lists the kinds of a CRD that it has deleted.
        """

        def names() -> list[set[str]]:
            try:
                return [self._names()]
            except ApiError as error:
                if error.code != _NOT_FOUND:
                    raise
                return []

        (every,) = until(lambda: "the kinds of the API server", names)
        return every

    def _names(self) -> set[str]:
        names: set[str] = set()
        for version, kind in self.api.served_kinds():
            if kind not in _TRANSIENT:
                for item in self.api.list(version, kind):
                    metadata = item["metadata"]
                    names.add(f"{kind} {metadata.get('namespace', '')}/{metadata['name']}")
        return names

    def search(self) -> list[str]:
        """Waits until every pod with accelerators has a node, and says where they are, and what was tried.

        Raises:
            WaitError: If a pod has none after the timeout.
        """

        def homeless() -> list[str]:
            pods = [pod for pod in self.api.list("v1", "Pod") if needs_accelerators(pod)]
            return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")] or (
                [] if pods else ["no pod with accelerators"]
            )

        self._until(lambda: f"nodes for {', '.join(homeless())}", lambda: not homeless(), _SEARCH)
        used = {pod["spec"]["nodeName"] for pod in self.api.list("v1", "Pod") if needs_accelerators(pod)}
        nodes = [node for node in self.api.list("v1", "Node") if node["metadata"]["name"] in used]
        where = Counter(capacity_of(node["metadata"]["labels"]) for node in nodes)
        lines = [f"{count} of {capacity}" for capacity, count in where.items()]
        return [*self.plane.capacity_keeper.log().splitlines(), *lines]

    def _end(self, live: Object) -> None:
        """Ends an awaited job by `FakeCloud.outcome`: its pods run nothing."""
        outcome = self._cloud.outcome
        if live["kind"] == "Job":
            labels = {"batch.kubernetes.io/job-name": live["metadata"]["name"]}
            for pod in self.api.list("v1", "Pod", live["metadata"]["namespace"], labels):
                end(self.api, pod, succeeded=outcome == "Complete")
        elif is_awaited(live) and readiness.is_running(live):
            self.api.patch(live, {"status": RAY_ENDS[outcome]}, "status")

    def _held(self, trees: Sequence[Mapping[str, Any]]) -> str:
        """Describes the first object that still exists, with its finalizers."""
        gone: Object = {"kind": "", "metadata": {"name": ""}}
        live = next(filter(None, map(self.api.get, trees)), gone)
        finalizers = ", ".join(live["metadata"].get("finalizers") or ()) or "none"
        return f"the deletion of {live['kind']} {live['metadata']['name']}; finalizers: {finalizers}"

    def _until(self, what: Callable[[], str], ask: Callable[[], _T], timeout: float = _TIMEOUT) -> _T:
        def answer() -> _T:
            if self._stopped.is_set():
                raise Rejected("interrupted")
            try:
                return ask()
            except ConnectionError:
                raise Rejected("the API server is gone") from None

        return until(what, answer, timeout)
