"""Kueue's Helm release: Helm renders the chart, and the manager runs as a process beside the API server.

Chart, CRDs, webhooks, roles and manager are the real ones. `_adapt` makes all changes.
"""

import base64
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, ApiError, Object, condition, establish, until
from rehearsal.control_plane.controller import Controller
from rehearsal.control_plane.kwokctl import error_in, free_ports
from rehearsal.errors import RehearsalError

CHART: Final = "kueue"
# Names of files in the manager's container, and here.
_CONFIGURATION: Final = "controller_manager_config.yaml"
_VALUES: Final = "values.yaml"
_GATES: Final = "--feature-gates="
_VISIBILITY: Final = "VisibilityOnDemand"
_CRD: Final = "CustomResourceDefinition"
# The manager's message when its configuration is right and it finds no kubeconfig.
_VALID: Final = "unable to get kubeconfig"


class KueueRelease:
    """The release of Kueue on a control plane.

    Args:
        api: The API server.
        folder: Folder for certificates, configuration and log.
        administrator: Path of the administrator's kubeconfig.

    Attributes:
        manager: Its manager.
        metrics: Host and port of the manager's metrics, empty before `install`.
    """

    def __init__(self, api: Api, folder: Path, administrator: Path) -> None:
        self._api = api
        self._folder = folder
        self.manager = Controller("kueue", folder, administrator)
        self._objects: list[Object] = []
        self.metrics = ""

    @property
    def installed(self) -> bool:
        """Whether `install` has created objects, also if it has failed."""
        return bool(self._objects)

    def install(self, values: Mapping[str, Any], namespace: str) -> None:
        """Applies the objects of the chart, starts the manager and waits until it is ready.

        Args:
            values: Values of the chart in place of its defaults.
            namespace: Namespace of the release. It must exist.

        Raises:
            RehearsalError: If the values are wrong, or the manager does not become ready.
        """
        if self.installed:
            raise RehearsalError("a release of Kueue is there already")
        shutil.rmtree(self._folder, ignore_errors=True)  # files of an earlier release
        self._folder.mkdir()
        objects = self._render(values, namespace)
        health, port, metrics = free_ports(3)
        self._check(_one(objects, "ConfigMap"))
        self._objects = _adapt(objects, health, port, metrics, self._folder)
        self.metrics = f"127.0.0.1:{metrics}"
        for tree in self._objects:
            self._api.apply(tree)
        establish(self._api, [tree for tree in self._objects if tree["kind"] == _CRD])
        # The arguments come from the chart's Deployment.
        (container,) = _one(self._objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        path = self._folder / _CONFIGURATION
        path.write_text(_one(self._objects, "ConfigMap")["data"][_CONFIGURATION])
        arguments = [argument.replace(f"/{_CONFIGURATION}", str(path)) for argument in container["args"]]
        account = _one(self._objects, "ServiceAccount")
        self.manager.start(self._api, account, arguments, health=health, prepare=self._mount_certificates)

    def uninstall(self) -> None:
        """Stops the manager, deletes the objects of `install` and waits until they are gone.

        Raises:
            WaitError: If a CRD stays, because an object has a finalizer and the manager is gone.
        """
        self.manager.stop()
        for tree in reversed(self._objects):
            self._api.delete(tree)
        until(lambda: f"the deletion of {self._left()}", lambda: not self._left())
        self._objects = []

    def _render(self, values: Mapping[str, Any], namespace: str) -> list[Object]:
        """The objects of the chart, in the order in which Helm creates them."""
        chart = go_build.TOOLS / "kueue/chart"
        unknown = list(_unknown(values, yaml.safe_load((chart / _VALUES).read_text()), "values"))
        if unknown:
            raise RehearsalError(f"{', '.join(unknown)}: the chart of Kueue has no such value")
        path = self._folder / _VALUES
        path.write_text(yaml.safe_dump(dict(values)))
        result = self._run(
            "helm", "template", CHART, str(chart), f"--namespace={namespace}", f"--values={path}"
        )
        if result.returncode:
            raise RehearsalError(f"Helm rejects the release of Kueue: {result.stderr.strip()}")
        return [tree for tree in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader) if tree]

    def _check(self, configuration: Object) -> None:
        """Lets the manager check its configuration. Without a kubeconfig the manager then ends."""
        text = configuration["data"][_CONFIGURATION]
        path = self._folder / "unchecked.yaml"
        path.write_text(text)
        result = self._run("kueue", f"--config={path}")
        if _VALID not in result.stderr:
            # If the configuration is no YAML mapping, Helm writes the reason into it.
            reason = yaml.safe_load(text).get("Error") or error_in(result.stderr, "error")
            raise RehearsalError(f"Kueue rejects its configuration: {reason}")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(go_build.path_of(program)), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(self._folder), "PATH": ""},  # without a kubeconfig and settings
        )

    def _mount_certificates(self) -> bool:
        """Writes the certificates in the manager's Secret to files, as a kubelet does.

        The manager creates them first, and is not ready before. Returns whether they exist.
        """
        if (self._folder / "tls.crt").exists():
            return True
        data = (self._api.get(_one(self._objects, "Secret")) or {}).get("data") or {}
        for name, content in data.items():
            (self._folder / name).write_bytes(base64.b64decode(content))
        return bool(data)

    def _left(self) -> str:
        """The names of the objects that still exist, and why. Touches the CRDs among them every few seconds.

        The API server may fail to delete the objects of a CRD while it begins to serve them. It tries once
        more. If that fails too, it forgets the CRD until something in it changes, except the condition that
        the API server itself has written (crd_finalizer.go of apiextensions-apiserver 0.36).
        """
        left = [live for live in map(self._api.get, self._objects) if live]
        touched = {"metadata": {"annotations": {"rehearsal/touched": str(time.monotonic() // 5)}}}
        for crd in left:
            if crd["kind"] == _CRD:
                with suppress(ApiError):
                    self._api.patch(crd, touched)
        return ", ".join(
            f"{live['metadata']['name']} ({condition(live, 'Terminating').get('message')})" for live in left
        )


def _adapt(objects: list[Object], health: int, port: int, metrics: int, certificates: Path) -> list[Object]:
    """The chart's objects for a manager that is a process of this machine.

    Args:
        objects: The objects that Helm renders. They are changed.
        health: Port of the manager's health checks.
        port: Port of its webhooks.
        metrics: Port of its metrics.
        certificates: Folder of their certificates.
    """
    # Kueue would serve its own API on a fixed port, with a certificate in a fixed folder.
    objects = [tree for tree in objects if tree["kind"] != "APIService"]
    for tree in objects:
        if tree["kind"] == "Service":
            tree["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
        tree.pop("aggregationRule", None)  # its controller would write the role again after its deletion
        for webhook in _webhooks(tree):
            webhook["clientConfig"]["service"]["port"] = port
    deployment = _one(objects, "Deployment")["spec"]
    data = _one(objects, "ConfigMap")["data"]
    deployment["replicas"] = 0
    configuration = yaml.safe_load(data[_CONFIGURATION])
    configuration |= {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {**configuration.get("metrics", {}), "bindAddress": f"127.0.0.1:{metrics}"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
    }
    # The manager reads its feature gates from the arguments or from the configuration.
    (container,) = deployment["template"]["spec"]["containers"]
    gates = next((argument for argument in container["args"] if argument.startswith(_GATES)), "")
    if gates:
        container["args"][container["args"].index(gates)] = f"{gates},{_VISIBILITY}=false"
    else:
        configuration["featureGates"] = {**(configuration.get("featureGates") or {}), _VISIBILITY: False}
    data[_CONFIGURATION] = yaml.safe_dump(configuration)
    return objects


def _webhooks(tree: Object) -> list[Object]:
    """The webhooks of a webhook configuration, or the conversion webhook of a CRD."""
    conversion = (tree.get("spec") or {}).get("conversion") or {}
    webhooks = [*tree.get("webhooks", ()), conversion.get("webhook")]
    return [webhook for webhook in webhooks if webhook]


def _unknown(values: Mapping[str, Any], defaults: Mapping[str, Any], path: str) -> Iterator[str]:
    """Values without a default, which Helm ignores. An empty default accepts any value."""
    for key, value in values.items():
        default = defaults.get(key)
        if defaults and key not in defaults:
            yield f"{path}.{key}"
        elif isinstance(default, dict) and isinstance(value, Mapping):
            yield from _unknown(value, default, f"{path}.{key}")


def _one(objects: list[Object], kind: str) -> Object:
    """The only object of a kind in the chart.

    Raises:
        RehearsalError: If the values ask for none of them, or for more than the rehearsal can run.
    """
    of_kind = [tree for tree in objects if tree["kind"] == kind]
    if len(of_kind) != 1:
        raise RehearsalError(f"a release of Kueue has one {kind} here, not {len(of_kind)}")
    return of_kind[0]
