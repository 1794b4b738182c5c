"""A local Kubernetes control plane: the real one, with simulated nodes.

etcd, API server, controller manager and scheduler are Kubernetes' own and listen on the loopback
interface alone. kwok plays the nodes' kubelets. No container, image, GPU or network policy is behind it.
"""

import shutil
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import requests
import yaml
from urllib3.exceptions import InsecureRequestWarning

from engine import go_build
from engine.go_build import Log
from rehearsal.control_plane import binaries, kueue, kwok
from rehearsal.control_plane.api import Api, Object, is_true, until
from rehearsal.control_plane.certificates import CLIENT, SERVER, Authority, service_account_key
from rehearsal.control_plane.kueue import Kueue
from rehearsal.control_plane.processes import Component, free_ports
from rehearsal.errors import RehearsalError

_SERVICES: Final = "10.96.0.0/16"
_FIRST_SERVICE: Final = "10.96.0.1"
_TIMEOUT: Final = 60.0
# A port may be taken between being found and being used.
_TRIES: Final = 3
_SERVED_NAMESPACE: Final = "default"
# KubeRay's CRDs are not ours to commit; they are looked for beside the checkout.
CRDS: Final = go_build.TOOLS.parent.parent / "shared" / "crds"


class ControlPlane:
    """A control plane that runs as long as the context.

    Args:
        log: Told what takes long, such as building the programs.
        with_kueue: Whether Kueue is installed with the chart's own values.

    Attributes:
        api: Its API server, once it runs.
        kueue: Kueue on it; runs once it is started.
        kubeconfig: Path of the administrator's.
    """

    api: Api
    kueue: Kueue
    kubeconfig: Path

    def __init__(self, log: Log = print, *, with_kueue: bool = False) -> None:
        self._log = log
        self._with_kueue = with_kueue
        self._components: list[Component] = []
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        """Starts everything.

        Raises:
            RehearsalError: With the end of the log of what did not start.
        """
        go_build.build(binaries.MODULES, self._log)
        for remaining in reversed(range(_TRIES)):
            try:
                self._start()
            except RehearsalError as error:
                self.__exit__(None, None, None)
                if not remaining or "address already in use" not in str(error):
                    raise
            except BaseException:
                self.__exit__(None, None, None)
                raise
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends every process, the last started first, and removes their files."""
        if hasattr(self, "kueue"):
            self.kueue.stop()
        while self._components:
            self._components.pop().stop()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def install(self, crds: Iterable[Path]) -> None:
        """Installs CRDs in their stored version, without descriptions: a large one costs seconds."""
        trees = [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in crds]
        for tree in trees:
            versions = [_without_descriptions(each) for each in tree["spec"]["versions"] if each["storage"]]
            self.api.create({**tree, "spec": {**tree["spec"], "versions": versions}})
        for tree in trees:
            kueue.establish(self.api, tree["metadata"]["name"])

    def await_nodes(self, names: list[str]) -> None:
        """Waits until nodes are ready and the taint is gone that says they are not."""
        for name in names:
            self._await_node(name)

    def _await_node(self, name: str) -> None:
        tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        until(lambda: f"node {name} to be ready", lambda: _is_usable(self.api.get(tree)), _TIMEOUT)

    def _start(self) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        etcd, peer, server, manager, scheduler, kwok_port = free_ports(6)
        keys = folder / "keys"
        authority = Authority(keys, "control-plane-ca")
        serving = authority.issue("apiserver", SERVER, also_at=(_FIRST_SERVICE,))
        admin = authority.issue("admin", CLIENT, organization="system:masters")
        signing = service_account_key(keys / "sa.key")
        self.api = Api(
            f"https://127.0.0.1:{server}", authority.pair.certificate, (admin.certificate, admin.key)
        )
        kubeconfig = self.kubeconfig = _write_kubeconfig(
            folder, self.api.server, authority, admin.certificate, admin.key
        )
        self.kueue = Kueue(self.api, folder / "kueue", kubeconfig)

        client, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        store = self._run(
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",  # nothing here outlives the process
            "--log-level=warn",
        )
        store.until(lambda: _answers(f"{client}/health"))
        self._run(
            "kube-apiserver",
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={server}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.pair.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing}",
            f"--service-account-signing-key-file={signing}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={_SERVICES}",
            "--endpoint-reconciler-type=none",
            # GKE's too: pods that ask for an accelerator tolerate the taint of its nodes.
            "--enable-admission-plugins=ExtendedResourceToleration",
            "--profiling=false",
            f"--cert-dir={folder / 'apiserver'}",
        ).until(self.api.is_ready)
        as_admin = [f"--{flag}kubeconfig={kubeconfig}" for flag in ("", "authentication-", "authorization-")]
        managers = self._run(
            "kube-controller-manager",
            *as_admin,
            "--bind-address=127.0.0.1",
            f"--secure-port={manager}",
            "--leader-elect=false",
            f"--service-account-private-key-file={signing}",
            f"--root-ca-file={authority.pair.certificate}",
            "--use-service-account-credentials=true",
            f"--cluster-signing-cert-file={authority.pair.certificate}",
            f"--cluster-signing-key-file={authority.pair.key}",
            f"--cert-dir={folder / 'controller-manager'}",
        )
        schedulers = self._run(
            "kube-scheduler",
            *as_admin,
            "--bind-address=127.0.0.1",
            f"--secure-port={scheduler}",
            "--leader-elect=false",
            f"--cert-dir={folder / 'scheduler'}",
        )
        nodes = self._run(
            "kwok",
            f"--kubeconfig={kubeconfig}",
            f"--config={kwok.write(folder / 'kwok.yaml')}",
            "--manage-all-nodes",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{kwok_port}",
        )
        managers.until(lambda: _answers(f"https://127.0.0.1:{manager}/healthz"))
        schedulers.until(lambda: _answers(f"https://127.0.0.1:{scheduler}/healthz"))
        nodes.until(lambda: _answers(f"http://127.0.0.1:{kwok_port}/healthz"))
        self._await_accounts()
        if self._with_kueue:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
            self.api.apply(namespace)
            self.kueue.start({}, "kueue-system")

    def _run(self, name: str, *flags: str) -> Component:
        assert self._folder
        command = [str(go_build.path_of(name)), *flags]
        component = Component(name, command, self._folder / f"{name}.log")
        self._components.append(component)
        return component

    def _await_accounts(self) -> None:
        """Pods are refused until the controller manager has made their namespace's service account."""
        account: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": _SERVED_NAMESPACE},
        }
        until(
            lambda: "the controller manager to make service accounts",
            lambda: self.api.get(account),
            _TIMEOUT,
        )


def _answers(url: str) -> bool:
    """Whether a health check answers; whose certificate it shows does not matter here."""
    try:
        with requests.Session() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)
            session.trust_env = False
            return session.get(url, timeout=5, verify=False).ok
    except requests.ConnectionError:
        return False


def _without_descriptions(schema: Any) -> Any:
    """A copy of a schema that says the same in fewer words; a property may itself be called description."""
    if isinstance(schema, dict):
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(item) for item in schema] if isinstance(schema, list) else schema


def _is_usable(node: Object | None) -> bool:
    taints = [taint["key"] for taint in ((node or {}).get("spec") or {}).get("taints") or ()]
    return is_true(node, "Ready") and "node.kubernetes.io/not-ready" not in taints


def _write_kubeconfig(folder: Path, server: str, authority: Authority, certificate: Path, key: Path) -> Path:
    path = folder / "kubeconfig"
    cluster = {"server": server, "certificate-authority": str(authority.pair.certificate)}
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
    }
    path.write_text(yaml.safe_dump(tree))
    return path
