"""A local Kubernetes control plane: the real one, with simulated nodes.

etcd, API server, controller manager and scheduler are Kubernetes' own and listen only on the loopback
interface. kwok simulates the nodes, and their pods unless `rehearsal.pods` runs them. There are no GPUs, and
network policies are enforced only for pods that run.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from engine import go_build
from engine.go_build import Log
from rehearsal.control_plane import kinds, kwokctl, programs, ray_operator
from rehearsal.control_plane.api import Api, Object, until
from rehearsal.control_plane.capacity_keeper import CapacityKeeper
from rehearsal.control_plane.controller import Controller
from rehearsal.control_plane.kueue_release import KueueRelease
from rehearsal.errors import RehearsalError
from rehearsal.workspace import folder_of_its_own

# Another process may take a free port before it is used.
_TRIES: Final = 3
# Pods are rejected until the controller manager has created the service account of their namespace.
_ACCOUNT: Final[Object] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "default"},
}


class ControlPlane:
    """A control plane. It runs for the time of the context.

    Args:
        log: Receives a line before a step that takes long, such as building the programs.
        runs_pods: Whether a `Kubelet` runs the pods' commands. Otherwise kwok simulates the pods.

    Attributes:
        api: Its API server.
        kueue: The release of Kueue, which is not installed yet.
        ray_operator: Ray's operator.
        capacity_keeper: The keeper of a stack with a list of capacities.
        kubeconfig: Path of the administrator's kubeconfig.
        keys: Folder of its keys and certificates.
    """

    def __init__(self, log: Log = print, *, runs_pods: bool = False) -> None:
        self._log = log
        self.runs_pods = runs_pods

    def __enter__(self) -> Self:
        """Starts everything.

        Raises:
            RehearsalError: If a program does not start, with the end of its log.
        """
        go_build.build(programs.MODULES, self._log)
        for remaining in reversed(range(_TRIES)):
            try:
                with ExitStack() as started:
                    self._start(started)
                    self._started = started.pop_all()
            except RehearsalError as error:
                if not remaining or "address already in use" not in str(error):
                    raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every process and removes their files."""
        self._started.close()

    def _start(self, started: ExitStack) -> None:
        folder = started.enter_context(folder_of_its_own("control-plane"))
        started.callback(kwokctl.delete, folder)
        kwokctl.create(folder, pods=not self.runs_pods)
        self.kubeconfig, self.keys = folder / "kubeconfig", next(folder.rglob("pki"))
        self.api = Api(self.kubeconfig)
        self.kueue = KueueRelease(self.api, folder / "kueue", self.kubeconfig)
        started.callback(self.kueue.manager.stop)
        (folder / "capacity-keeper").mkdir()
        self.capacity_keeper = CapacityKeeper(self.api, folder / "capacity-keeper", self.kubeconfig)
        started.callback(self.capacity_keeper.stop)
        until(lambda: "the control plane to be ready", lambda: self._is_ready(folder))
        kinds.install(self.api)
        (folder / "ray").mkdir()
        self.ray_operator = Controller("ray-operator", folder / "ray", self.kubeconfig)
        started.callback(self.ray_operator.stop)
        ray_operator.install(self.api, self.ray_operator, runs_pods=self.runs_pods)

    def _is_ready(self, folder: Path) -> bool:
        kwokctl.check(folder)
        return self.api.is_ready() and self.api.get(_ACCOUNT) is not None
