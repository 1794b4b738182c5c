"""The GKE cluster of a rehearsed stack, on a local control plane.

Simulated are the nodes (`control_plane/nodes.py`), and pods unless they are run.
What GKE itself installs is missing.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from cloud.kubernetes import is_awaited
from rehearsal.control_plane import readiness
from rehearsal.control_plane.api import Api, ApiError, Object, WaitError, until
from rehearsal.control_plane.cluster import ControlPlane
from rehearsal.control_plane.kueue_release import CHART
from rehearsal.control_plane.kwok import end
from rehearsal.control_plane.node_keeper import NodeKeeper
from rehearsal.control_plane.programs import KUEUE
from rehearsal.errors import RehearsalError
from rehearsal.fake_cloud import CLUSTER, FakeCloud, Rejected
from rehearsal.fake_kubernetes import RAY_ENDS

_T = TypeVar("_T")
# For pods to run, for objects to be deleted and the like; each takes a second or two here.
_TIMEOUT: Final = 60.0
# Pods that run train, and take their grace periods.
_LONGEST_RUN: Final = 300.0
# Kinds whose objects the control plane creates and deletes by itself.
_TRANSIENT: Final = ("Event", "Lease", "EndpointSlice", "Endpoints")


class LiveCluster:
    """The cluster that the fake Kubernetes provider writes to.

    Args:
        plane: A running control plane.
        cloud: What exists in the project of the cluster.

    Attributes:
        plane: The control plane, and `api` its API server.
        written: How many objects have been created or updated.
        nodes: What adds and removes its nodes.
    """

    def __init__(self, plane: ControlPlane, cloud: FakeCloud) -> None:
        self.plane = plane
        self.api: Api = plane.api
        self._cloud = cloud
        self._stopped = threading.Event()
        # By path, in the order in which they came.
        self._applied: dict[str, Object] = {}
        self._before = self.inventory()
        self._patience = _LONGEST_RUN if plane.runs_pods else _TIMEOUT
        self.nodes = NodeKeeper(self.api, cloud)
        self.written = 0

    def stop(self) -> None:
        """Ends everything that waits, and refuses to wait from now on."""
        self._stopped.set()
        self.nodes.stop()

    def write(self, tree: Object, *, new: bool, force: bool) -> tuple[Object, str]:
        """Creates or updates an object, and waits for it where Pulumi does.

        Args:
            new: Whether it must not be there yet. The provider takes nothing over since 4.29, unless
                `upsertExistingObjects` says so: https://github.com/pulumi/pulumi-kubernetes/pull/4278.
            force: Whether fields that others have written are taken over.

        Returns:
            It as it is afterwards, and why it is not ready.

        Raises:
            ApiError: With the API server's message.
        """
        path = self.api.path_of(tree)
        if new and self.api.get(tree):
            kind, name = path.rsplit("/", 2)[1:]
            raise ApiError(409, f'{kind} "{name}" already exists')
        live = self._applied[path] = self.api.apply(tree, force=force)
        self.written += 1
        missing = readiness.awaited(tree)
        if missing is None:
            return live, ""

        def lacks() -> str:
            nonlocal live
            live = self.api.get(tree) or live
            return missing(self.api, live)

        def is_up() -> bool:
            if not self.plane.runs_pods:
                self._end(live)
            return not lacks()

        name = f"{tree['kind']} {live['metadata'].get('namespace', '')}/{live['metadata']['name']}"
        try:
            self._until(lambda: f"{name}: {lacks()}", is_up, self._patience)
        except RehearsalError as error:
            return live, str(error)
        return live, ""

    def delete(self, *trees: Mapping[str, Any]) -> None:
        """Deletes objects and what they own, and waits until all of it is gone.

        Raises:
            WaitError: When it is not gone in time; the message names the finalizers.
        """
        for tree in trees:
            self.api.delete(tree)

        def is_gone() -> bool:
            # With the cluster its nodes have gone, and no pod gets its grace period.
            for pod in () if any(self._cloud.of_type(CLUSTER)) else self.api.list("v1", "Pod"):
                if "deletionTimestamp" in pod["metadata"]:
                    self.api.delete(pod, ended=True)
            return not any(map(self.api.get, trees))

        self._until(lambda: self._held(trees), is_gone, self._patience * len(trees))
        for tree in trees:
            self._applied.pop(self.api.path_of(tree), None)

    def install(self, release: Mapping[str, Any]) -> None:
        """Installs Kueue's Helm release.

        Raises:
            RehearsalError: When the release is wrong, or of another chart.
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
        """Deletes everything that is left in the cluster, as the deletion of a GKE cluster does.

        Raises:
            WaitError: When something cannot be deleted.
        """
        applied = list(self._applied.values())
        self.delete(*(tree for tree in reversed(applied) if tree["kind"] != "Namespace"))
        self.plane.kueue.uninstall()
        self.delete(*(tree for tree in applied if tree["kind"] == "Namespace"))
        self.nodes.clear()

    def left(self) -> list[str]:
        """Objects that were not there at the beginning; waits some time until there are none."""
        with contextlib.suppress(WaitError):
            self._until(lambda: "an empty cluster", lambda: self.inventory() <= self._before)
        return sorted(self.inventory() - self._before)

    def inventory(self) -> set[str]:
        """Kind, namespace and name of every object in the API server."""
        found: set[str] = set()
        for version, kind in self.api.served_kinds():
            if kind not in _TRANSIENT:
                for item in self.api.list(version, kind):
                    metadata = item["metadata"]
                    found.add(f"{kind} {metadata.get('namespace', '')}/{metadata['name']}")
        return found

    def _end(self, live: Object) -> None:
        """Ends a job that is waited for as `FakeCloud.outcome` says: nothing runs in its pods."""
        outcome = self._cloud.outcome
        if live["kind"] == "Job":
            labels = {"batch.kubernetes.io/job-name": live["metadata"]["name"]}
            for pod in self.api.list("v1", "Pod", live["metadata"]["namespace"], labels):
                end(self.api, pod, succeeded=outcome == "Complete")
        elif is_awaited(live) and readiness.is_running(live):
            self.api.patch(live, {"status": RAY_ENDS[outcome]}, "status")

    def _held(self, trees: Sequence[Mapping[str, Any]]) -> str:
        """Why the first that is still there is."""
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
