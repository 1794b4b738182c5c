"""Kueue's Helm release: Helm renders the chart, and the manager runs as a process beside the API server.

Chart, CRDs, webhooks, roles and manager are the real ones; `_adapt` has all that differs from a cluster.
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
# Where the manager's container has what is files here.
_CONFIGURATION: Final = "controller_manager_config.yaml"
_VALUES: Final = "values.yaml"
_GATES: Final = "--feature-gates="
_VISIBILITY: Final = "VisibilityOnDemand"
_CRD: Final = "CustomResourceDefinition"
# What the manager says when its configuration is right and it finds no kubeconfig.
_VALID: Final = "unable to get kubeconfig"


class KueueRelease:
    """The release of Kueue on one control plane.

    Args:
        api: The API server.
        folder: For certificates, configuration and log.
        administrator: Path of the administrator's kubeconfig.

    Attributes:
        manager: Its manager.
    """

    def __init__(self, api: Api, folder: Path, administrator: Path) -> None:
        self._api = api
        self._folder = folder
        self.manager = Controller("kueue", folder, administrator)
        self._objects: list[Object] = []

    @property
    def installed(self) -> bool:
        """Whether there is something to uninstall, complete or not."""
        return bool(self._objects)

    def install(self, values: Mapping[str, Any], namespace: str) -> None:
        """Applies what the chart renders and starts the manager; returns when it is ready.

        Args:
            values: Values of the chart over its own defaults.
            namespace: Namespace of the release; must exist.

        Raises:
            RehearsalError: When the values are wrong, or the manager does not become ready.
        """
        if self.installed:
            raise RehearsalError("a release of Kueue is there already")
        shutil.rmtree(self._folder, ignore_errors=True)  # an earlier release's
        self._folder.mkdir()
        objects = self._render(values, namespace)
        health, port = free_ports(2)
        self._check(_one(objects, "ConfigMap"))
        self._objects = _adapt(objects, health, port, self._folder)
        for each in self._objects:
            self._api.apply(each)
        establish(self._api, [each for each in self._objects if each["kind"] == _CRD])
        # As the chart's Deployment does.
        (container,) = _one(self._objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        path = self._folder / _CONFIGURATION
        path.write_text(_one(self._objects, "ConfigMap")["data"][_CONFIGURATION])
        arguments = [each.replace(f"/{_CONFIGURATION}", str(path)) for each in container["args"]]
        account = _one(self._objects, "ServiceAccount")
        self.manager.start(self._api, account, arguments, health=health, prepare=self._mount_certificates)

    def uninstall(self) -> None:
        """Stops the manager and deletes what `install` created; waits until all of it is gone.

        Raises:
            WaitError: When a CRD does not go, because an object has a finalizer and the manager is gone.
        """
        self.manager.stop()
        for each in reversed(self._objects):
            self._api.delete(each)
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
        done = self._run(
            "helm", "template", CHART, str(chart), f"--namespace={namespace}", f"--values={path}"
        )
        if done.returncode:
            raise RehearsalError(f"Helm rejects the release of Kueue: {done.stderr.strip()}")
        return [each for each in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if each]

    def _check(self, configuration: Object) -> None:
        """Lets the manager check its configuration; without a kubeconfig it does nothing more."""
        text = configuration["data"][_CONFIGURATION]
        path = self._folder / "given.yaml"
        path.write_text(text)
        done = self._run("kueue", f"--config={path}")
        if _VALID not in done.stderr:
            # Helm puts into the configuration why it is no YAML mapping.
            reason = yaml.safe_load(text).get("Error") or error_in(done.stderr, "error")
            raise RehearsalError(f"Kueue rejects its configuration: {reason}")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(go_build.path_of(program)), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(self._folder), "PATH": ""},  # no kubeconfig and no settings to be found
        )

    def _mount_certificates(self) -> bool:
        """Writes the certificates that the manager has put into its Secret to files, as a kubelet does.

        They are among the first things that it makes; before, it is not ready.
        """
        if (self._folder / "tls.crt").exists():
            return True
        data = (self._api.get(_one(self._objects, "Secret")) or {}).get("data") or {}
        for name, content in data.items():
            (self._folder / name).write_bytes(base64.b64decode(content))
        return bool(data)

    def _left(self) -> str:
        """Names of what is not gone yet, of a CRD also why; changes an annotation of a CRD every few seconds.

        The API server may fail to delete the objects of a CRD while it begins to serve them. It tries once
        more. When that fails too it forgets the CRD until something in it changes, other than the condition
        that the API server itself has written (crd_finalizer.go of apiextensions-apiserver 0.36).
        """
        left = [found for each in self._objects if (found := self._api.get(each))]
        touched = {"metadata": {"annotations": {"rehearsal/touched": str(time.monotonic() // 5)}}}
        for crd in left:
            if crd["kind"] == _CRD:
                with suppress(ApiError):
                    self._api.patch(crd, touched)
        whys = (condition(each, "Terminating").get("message") for each in left)
        return ", ".join(f"{each['metadata']['name']} ({why})" for each, why in zip(left, whys, strict=True))


def _adapt(objects: list[Object], health: int, port: int, certificates: Path) -> list[Object]:
    """The chart's objects where a process of this machine takes the place of the manager's pods.

    Args:
        objects: As Helm renders them; they are changed.
        health: Port of the manager's own health.
        port: Port of its webhooks.
        certificates: Folder of their certificates.
    """
    # Kueue's own API would be served on a fixed port, with a certificate in a fixed folder.
    objects = [each for each in objects if each["kind"] != "APIService"]
    for each in objects:
        if each["kind"] == "Service":
            each["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
        each.pop("aggregationRule", None)  # its controller would write the role again after its deletion
        conversion = (each.get("spec") or {}).get("conversion") or {}
        for webhook in (*each.get("webhooks", ()), *filter(None, [conversion.get("webhook")])):
            webhook["clientConfig"]["service"]["port"] = port
    deployment, data = _one(objects, "Deployment")["spec"], _one(objects, "ConfigMap")["data"]
    deployment["replicas"] = 0
    configuration = yaml.safe_load(data[_CONFIGURATION])
    configuration |= {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
    }
    # The manager takes its gates from one place.
    (container,) = deployment["template"]["spec"]["containers"]
    gates = next((each for each in container["args"] if each.startswith(_GATES)), "")
    if gates:
        container["args"][container["args"].index(gates)] = f"{gates},{_VISIBILITY}=false"
    else:
        configuration["featureGates"] = {**(configuration.get("featureGates") or {}), _VISIBILITY: False}
    data[_CONFIGURATION] = yaml.safe_dump(configuration)
    return objects


def _unknown(values: Mapping[str, Any], defaults: Mapping[str, Any], path: str) -> Iterator[str]:
    """Values that have no default, which Helm ignores; an empty default takes anything."""
    for key, value in values.items():
        default = defaults.get(key)
        if defaults and key not in defaults:
            yield f"{path}.{key}"
        elif isinstance(default, dict) and isinstance(value, Mapping):
            yield from _unknown(value, default, f"{path}.{key}")


def _one(objects: list[Object], kind: str) -> Object:
    """The only object of a kind in the chart.

    Raises:
        RehearsalError: When the values ask for none of it, or for more than the rehearsal can run.
    """
    found = [each for each in objects if each["kind"] == kind]
    if len(found) != 1:
        raise RehearsalError(f"a release of Kueue has one {kind} here, not {len(found)}")
    return found[0]
