"""One pod of a simulated node, whose containers are run."""

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
    """What a pod finds on its node.

    Args:
        image: Lays out an image, by its reference.
        bucket: The folder of a bucket.
        environment: Variables on top of a container's own, which lead to the stand-ins.
        mounts: Folders on top of an image's own.
        folder: For pods, and their logs.
        admit: What admission webhooks of the platform make of a pod, beside the pods that they have let in.
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
    """A pod, from being bound to a node until it has ended, on a thread of its own.

    Args:
        api: The API server, which is told how it is.
        tree: The pod, as webhooks have let it in.
        machine: Its node.

    Attributes:
        admitted: The pod as webhooks have let it in.
        tree: The pod as the API server had it last.
        address: Its address.
        enter: The words before a command that is to run in its network.
        connected: To be set when its network is as it is to be; nothing of it is started before.
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
        self._begun = now()
        self._told: Object = {}
        self._grace: float | None = None
        self._reason = ""
        self._dead = threading.Event()
        self.connected = threading.Event()
        policy = self._spec.get("restartPolicy", "Always")
        once = "OnFailure" if policy == "Always" else policy
        self._first = [self._life(each, once) for each in self._spec.get("initContainers") or ()]
        self._then = [self._life(each, policy) for each in self._spec["containers"]]
        self._lives = (*self._first, *self._then)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def resolve(self, names: Sequence[tuple[str, str]]) -> None:
        """Lets it find these addresses by their names, and itself."""
        own, space = self._host, self.tree["metadata"]["namespace"]
        if domain := self._spec.get("subdomain"):
            own = f"{own}.{domain}.{space}.svc.cluster.local {own}"
        write_hosts(self._hosts, [(self.address, own), *names])

    def process(self, container: str) -> Process:
        """The process of a container that has been started."""
        found = (life.process for life in self._then if life.container["name"] == container)
        return next(filter(None, found))

    def leave(self, grace: float, reason: str = "") -> None:
        """Asks it to end within `grace` seconds; `Terminated` is the reason of a node that is shut down."""
        if self._grace is None:
            self._reason, self._grace = reason, grace

    def kill(self) -> None:
        """Ends it at once; nobody tells the API server."""
        self._dead.set()
        for life in self._lives:
            life.kill()

    def close(self) -> None:
        """Ends it for good, and removes what it has written."""
        self.kill()
        self.thread.join()
        self.kill()  # what it has started meanwhile
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
                self._tell()
                if self._told.get("phase") in ("Succeeded", "Failed"):
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

    def _tell(self) -> None:
        phase = self._phase()
        initialized = all(life.done and not life.exit_code for life in self._first)
        ready = phase == "Running" and all(life.ready for life in self._then)
        holds = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
        holds |= {"DisruptionTarget": True} if self._reason else {}
        # A list is replaced as a whole: what others have written into it stays.
        conditions = {each["type"]: each for each in (self.tree.get("status") or {}).get("conditions") or ()}
        for name, true in holds.items():
            if conditions.get(name, {}).get("status") != str(true):
                conditions[name] = {"type": name, "status": str(true), "lastTransitionTime": now()}
        status: Object = {
            "phase": phase,
            "reason": self._reason or None,
            "hostIP": NODE,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self._begun,
            "initContainerStatuses": [life.status() for life in self._first],
            "containerStatuses": [life.status() for life in self._then],
            "conditions": [*conditions.values()],
        }
        if status != self._told:
            try:
                self.tree = self._api.patch(self.tree, {"status": status}, "status")
                self._told = status
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
        volumes = {each["name"]: each for each in self._spec.get("volumes") or ()}
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

    def _read(self, kind: str, said: Object) -> Mapping[str, str]:
        metadata = {"name": said["name"], "namespace": self.tree["metadata"]["namespace"]}
        found = self._api.get({"apiVersion": "v1", "kind": kind, "metadata": metadata})
        if found is None and not said.get("optional"):
            raise RehearsalError(f'{kind.lower()} "{said["name"]}" not found')
        texts = (found or {}).get("data") or {}
        if kind == "Secret":
            return {key: base64.b64decode(text).decode() for key, text in texts.items()}
        return texts
