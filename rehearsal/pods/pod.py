"""A pod of a simulated node, with containers that run."""

import base64
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.control_plane.api import Api, ApiError, Object
from rehearsal.errors import RehearsalError
from rehearsal.pods.container import Process, Sandbox
from rehearsal.pods.image import Image
from rehearsal.pods.life import Life, now
from rehearsal.pods.network import NODE, PodNetwork, write_hosts
from rehearsal.pods.references import environment, expanded, lay_out

_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine of a node.

    Args:
        image: Prepares an image by its reference.
        bucket: Returns the folder of a bucket by its name.
        environment: Variables on top of a container's own, with the addresses of the stand-ins.
        mounts: Folders on top of an image's own.
        folder: Folder for pods and their logs.
        admit: Does what the platform's admission webhooks do to a pod. Its second argument is the other pods.
    """

    image: Callable[[str], Image]
    bucket: Callable[[str], Path]
    environment: Callable[[Object, Mapping[str, str]], Mapping[str, str]]
    mounts: Mapping[str, Path]
    folder: Path
    admit: Callable[[Object, Sequence[Object]], Object] = lambda pod, _others: pod

    def log(self, pod: Object, container: str) -> Path:
        """The log of a container."""
        metadata = pod["metadata"]
        pod_folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        return self.folder / "logs" / pod_folder / f"{container}.log"


class Pod:
    """A pod that is bound to a node. It runs in its own thread until it ends.

    Args:
        api: The API server, which gets the pod's status.
        tree: The pod's object after admission.
        machine: The machine of its node.

    Attributes:
        admitted: The pod's object after admission.
        tree: The pod's latest object of the API server.
        address: Its address.
        enter: The beginning of a command line that runs in its network.
        connected: Set when its network is ready. Containers start after that.
    """

    def __init__(self, api: Api, tree: Object, machine: Machine) -> None:
        self._api, self.tree, self._machine = api, tree, machine
        self.admitted = tree
        self._spec = tree["spec"]
        self._folder = machine.folder / "pods" / tree["metadata"]["uid"]
        self._network = PodNetwork()
        self.address, self.enter = self._network.address, self._network.enter
        self._folder.mkdir(parents=True)
        self._hosts = self._folder / "hosts"
        self.resolve(())
        self._begin = now()
        self._status: Object = {}
        self._grace: float | None = None
        self._reason = ""
        self._dead = threading.Event()
        self.connected = threading.Event()
        policy = self._spec.get("restartPolicy", "Always")
        once = "OnFailure" if policy == "Always" else policy
        self._first = [self._life(container, once) for container in self._spec.get("initContainers") or ()]
        self._then = [self._life(container, policy) for container in self._spec["containers"]]
        self._lives = (*self._first, *self._then)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def resolve(self, names: Sequence[tuple[str, str]]) -> None:
        """Writes these names and the pod's own name into its hosts file."""
        own, space = self._host, self.tree["metadata"]["namespace"]
        if domain := self._spec.get("subdomain"):
            own = f"{own}.{domain}.{space}.svc.cluster.local {own}"
        write_hosts(self._hosts, [(self.address, own), *names])

    def process(self, container: str) -> Process:
        """The process of a started container."""
        lives = [life for life in self._then if life.container["name"] == container]
        return next(life.process for life in lives if life.process)

    def leave(self, grace: float, reason: str = "") -> None:
        """Stops the pod within `grace` seconds. The reason is `Terminated` if the node shuts down."""
        if self._grace is None:
            self._reason, self._grace = reason, grace

    def kill(self) -> None:
        """Kills the pod without a word to the API server."""
        self._dead.set()
        for life in self._lives:
            life.kill()

    def close(self) -> None:
        """Kills the pod and removes its files."""
        self.kill()
        self.thread.join()
        self.kill()  # containers that have started meanwhile
        self._network.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        while not self._dead.wait(_SECONDS):
            if not self.connected.is_set():
                continue
            if self._grace is not None:
                for life in self._lives:
                    life.leave(self._grace)
            first = next((life for life in self._first if not life.done or life.exit_code), None)
            for life in [first] if first else self._then:
                life.tick()
            with suppress(ConnectionError):  # the API server may be gone for a while
                self._report()
                if self._status.get("phase") in ("Succeeded", "Failed"):
                    if self._grace is not None and not self._reason:
                        self._api.delete(self.tree, ended=True)
                    return

    def _phase(self) -> str:
        if any(life.done and life.exit_code for life in self._first):
            return "Failed"
        if all(life.done for life in self._lives):
            good = all(life.process and not life.exit_code for life in self._then)
            return "Succeeded" if good else "Failed"
        return "Running" if any(life.process for life in self._then) else "Pending"

    def _report(self) -> None:
        """Writes the pod's status if it has changed."""
        phase = self._phase()
        initialized = all(life.done and not life.exit_code for life in self._first)
        ready = phase == "Running" and all(life.ready for life in self._then)
        holds = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
        holds |= {"DisruptionTarget": True} if self._reason else {}
        # The patch replaces the whole list, so conditions of other writers must be in it.
        present = (self.tree.get("status") or {}).get("conditions") or ()
        conditions = {condition["type"]: condition for condition in present}
        for name, true in holds.items():
            if conditions.get(name, {}).get("status") != str(true):
                conditions[name] = {"type": name, "status": str(true), "lastTransitionTime": now()}
        status: Object = {
            "phase": phase,
            "reason": self._reason or None,
            "hostIP": NODE,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self._begin,
            "initContainerStatuses": [life.status() for life in self._first],
            "containerStatuses": [life.status() for life in self._then],
            "conditions": [*conditions.values()],
        }
        if status != self._status:
            try:
                self.tree = self._api.patch(self.tree, {"status": status}, "status")
                self._status = status
            except ApiError as error:
                if error.code == 404:
                    self._dead.set()

    def _life(self, container: Object, policy: str) -> Life:
        grace = float(self._spec.get("terminationGracePeriodSeconds", 30))
        return Life(container, policy, lambda: self._sandbox(container), self.address, grace)

    def _sandbox(self, container: Object) -> Sandbox:
        machine, folder = self._machine, self._folder
        image = machine.image(container["image"])
        mounts = [(target, source, False) for target, source in {**image.mounts, **machine.mounts}.items()]
        mounts.append(("/etc/hosts", self._hosts, False))
        volumes = {volume["name"]: volume for volume in self._spec.get("volumes") or ()}
        for mount in container.get("volumeMounts") or ():
            source, writable = lay_out(volumes[mount["name"]], folder, machine.bucket, self._read)
            path = source / mount.get("subPath", "")
            mounts.append((mount["mountPath"], path, writable and not mount.get("readOnly")))
        security = {**(self._spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
        user = security.get("runAsUser", image.user)
        if security.get("runAsNonRoot") and not user:
            raise RehearsalError("container has runAsNonRoot and image will run as root")
        here = {**self.tree, "status": {**(self.tree.get("status") or {}), "podIP": self.address}}
        own = {**image.environment, **environment(here, container, self._read)}
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        (log := machine.log(self.tree, container["name"])).parent.mkdir(parents=True, exist_ok=True)
        return Sandbox(
            command=[expanded(word, own) for word in words],
            environment={"HOSTNAME": self._host, **own, **machine.environment(here, own)},
            folder=container.get("workingDir") or image.folder,
            user=user,
            name=self._host,
            mounts=mounts,
            read_only=bool(security.get("readOnlyRootFilesystem")),
            enter=self.enter,
            log=log,
        )

    @property
    def _host(self) -> str:
        return self._spec.get("hostname") or self.tree["metadata"]["name"]

    def _read(self, kind: str, reference: Object) -> Mapping[str, str]:
        metadata = {"name": reference["name"], "namespace": self.tree["metadata"]["namespace"]}
        tree = self._api.get({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        if tree is None and not reference.get("optional"):
            raise RehearsalError(f'{kind.lower()} "{reference["name"]}" not found')
        texts = (tree or {}).get("data") or {}
        if kind == "Secret":
            return {key: base64.b64decode(text).decode() for key, text in texts.items()}
        return texts
