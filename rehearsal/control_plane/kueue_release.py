"""Kueue's Helm release, with the manager as a process beside the API server.

The manager, its CRDs and its webhooks are the real ones. The configuration is that of the release, except for
addresses and leader election. The chart's Deployment and roles are missing: the manager is an administrator.
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import requests
import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, ApiError, Object, condition, is_true, until
from rehearsal.control_plane.kwokctl import LOG_LINES, free_ports
from rehearsal.errors import RehearsalError

CHART: Final = "kueue"
_SECRET: Final = "kueue-webhook-server-cert"
_SERVICE: Final = "kueue-webhook-service"
# The manager makes the certificates of its webhooks itself.
_CERTIFICATES: Final = {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET}
# CRDs with a conversion webhook: config/components/crd/patches/webhook_in_*.yaml, as kustomize uses them.
_CONVERTED: Final = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
# Webhooks of Kueue's own cluster-wide objects. The chart exempts two namespaces from all others.
_EVERYWHERE: Final = ("clusterqueue", "resourceflavor", "workload", "cohort")
_EXEMPT: Final = ("kube-system", "kueue-system")
_TIMEOUT: Final = 60.0
_CRD: Final = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
# What the manager says when its configuration is right and it finds no kubeconfig.
_VALID: Final = "unable to get kubeconfig"


class KueueRelease:
    """The release of Kueue on one control plane.

    Args:
        api: The API server.
        folder: For certificates, configuration and log.
        kubeconfig: Path of the administrator's kubeconfig.

    Attributes:
        installed: Whether there is something to uninstall, complete or not.
    """

    def __init__(self, api: Api, folder: Path, kubeconfig: Path) -> None:
        self._api = api
        self._folder = folder
        self._certificates = folder / "certificates"
        self._log = folder / "kueue.log"
        self._kubeconfig = kubeconfig
        self._manager: subprocess.Popen[bytes] | None = None
        self._namespace = ""
        self.installed = False

    def install(self, values: Mapping[str, Any], namespace: str) -> None:
        """Installs the CRDs and webhooks and starts the manager; returns when it is ready.

        Args:
            values: Values of the chart over its own defaults.
            namespace: Namespace of the release; must exist.

        Raises:
            RehearsalError: When the values are wrong, or the manager does not become ready.
        """
        if self.installed:
            raise RehearsalError("a release of Kueue is there already")
        configuration = configured(values)
        self._namespace = namespace
        shutil.rmtree(self._folder, ignore_errors=True)  # an earlier release's
        self._certificates.mkdir(parents=True)
        self._check(configuration)
        health, port = free_ports(2)
        self.installed = True
        for each in self._endpoint():
            self._api.apply(each)
        self._install_crds(port)
        try:
            here = _here(configuration, namespace, health, port, self._certificates)
            self._run(
                f"--config={self._write('kueue.yaml', here)}",
                f"--kubeconfig={self._kubeconfig}",
                f"--zap-log-level={_merged(values)['controllerManager']['manager']['logLevel']}",
            )
            for each in self._webhooks(port):
                self._api.apply(each)
            self._await(self._mount_certificates)
            self._await(lambda: _answers(f"http://127.0.0.1:{health}/readyz"))
        except BaseException:
            self.stop()
            raise

    def uninstall(self) -> None:
        """Stops the manager and deletes what `install` created; waits until the CRDs are gone.

        Raises:
            WaitError: When they do not go, because an object has a finalizer and the manager is gone.
        """
        if not self.installed:
            return
        self.stop()
        crds = [{**_CRD, "metadata": {"name": crd["metadata"]["name"]}} for crd in _crds()]
        for each in (*self._webhooks(0), *self._endpoint(), *crds):
            self._api.delete(each)
        until(
            lambda: f"the deletion of {', '.join(map(_why, self._left(crds)))}",
            lambda: not self._left(crds),
            _TIMEOUT,
        )
        self.installed = False

    def stop(self) -> None:
        """Ends the manager, if it runs."""
        if self._manager:
            self._manager.kill()
            self._manager.wait()
        self._manager = None

    def _left(self, crds: list[Object]) -> list[Object]:
        return [found for crd in crds if (found := self._touch(crd))]

    def _touch(self, crd: Object) -> Object | None:
        """Changes an annotation of a CRD every few seconds; returns the CRD, None when it is gone.

        The API server may fail to delete the objects of a CRD while it begins to serve them. It tries once
        more. When that fails too it forgets the CRD until something in it changes, other than the condition
        that the API server itself has written (crd_finalizer.go of apiextensions-apiserver 0.36).
        """
        try:
            touched = {"metadata": {"annotations": {"rehearsal/touched": str(time.monotonic() // 5)}}}
            return self._api.patch(crd, touched)
        except ApiError:
            return self._api.get(crd)

    def _check(self, configuration: Mapping[str, Any]) -> None:
        """Lets the manager check its configuration; without a kubeconfig it does nothing more."""
        path = self._write("given.yaml", configuration)
        done = subprocess.run(
            [str(go_build.path_of("kueue")), "--config", str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(self._folder), "PATH": ""},  # no kubeconfig to be found
        )
        output = done.stdout + done.stderr
        if _VALID not in output:
            raise RehearsalError(f"Kueue refuses its configuration: {_error_in(output)}")

    def _run(self, *flags: str) -> None:
        with self._log.open("wb") as output:
            self._manager = subprocess.Popen(
                [str(go_build.path_of("kueue")), *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
            )

    def _await(self, ask: Callable[[], bool]) -> None:
        """Waits while the manager starts.

        Raises:
            RehearsalError: With the end of its log, when it ends before.
        """

        def answer() -> bool:
            if self._manager and self._manager.poll() is not None:
                raise RehearsalError(f"kueue ended as it started; the end of its log:\n{self._tail()}")
            return ask()

        until(lambda: f"kueue to be ready; the end of its log:\n{self._tail()}", answer, _TIMEOUT)

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def _mount_certificates(self) -> bool:
        """Writes the certificates that the manager has put into its Secret to files, as a kubelet does."""
        secret, _ = self._endpoint()
        data = (self._api.get(secret) or {}).get("data") or {}
        for name, content in data.items():
            (self._certificates / name).write_bytes(base64.b64decode(content))
        return bool(data)

    def _write(self, name: str, tree: Mapping[str, Any]) -> Path:
        path = self._folder / name
        path.write_text(yaml.safe_dump(dict(tree)))
        return path

    def _endpoint(self) -> tuple[Object, Object]:
        """The chart's Secret, which the manager fills, and its Service, which here means this machine."""
        secret, service = (
            {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": self._namespace}}
            for kind, name in (("Secret", _SECRET), ("Service", _SERVICE))
        )
        return secret, {**service, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}

    def _reference(self, path: str, port: int) -> dict[str, Any]:
        return {"service": {"name": _SERVICE, "namespace": self._namespace, "path": path, "port": port}}

    def _install_crds(self, port: int) -> None:
        crds = _crds()
        for crd in crds:
            if crd["spec"]["names"]["plural"] in _CONVERTED:
                client = self._reference("/convert", port)
                webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
                crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            self._api.apply(crd)
        for crd in crds:
            establish(self._api, crd["metadata"]["name"])

    def _webhooks(self, port: int) -> list[Object]:
        text = go_build.file("kueue/webhooks.yaml").read_text()
        configurations = [each for each in yaml.safe_load_all(text) if each]
        selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_EXEMPT)}
        for each in configurations:
            each["metadata"]["name"] = f"kueue-{each['metadata']['name']}"
            for webhook in each["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = self._reference(path, port)
                if webhook["name"].split(".")[0][1:] not in _EVERYWHERE:
                    webhook["namespaceSelector"] = {"matchExpressions": [selector]}
        return configurations


def configured(values: Mapping[str, Any]) -> dict[str, Any]:
    """The manager's configuration in the values of a release; by default the chart's own.

    Raises:
        RehearsalError: For a value that the chart does not have, or a configuration that is no YAML mapping.
            Helm would accept both.
    """
    merged = _merged(values)
    text = merged["managerConfig"]["controllerManagerConfigYaml"]
    try:
        configuration = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RehearsalError(f"managerConfig.controllerManagerConfigYaml is no YAML: {error}") from None
    if not isinstance(configuration, dict):
        raise RehearsalError("managerConfig.controllerManagerConfigYaml is not a mapping")
    configuration.setdefault("internalCertManagement", _CERTIFICATES)
    gates = {gate["name"]: gate["enabled"] for gate in merged["controllerManager"]["featureGates"]}
    if gates:
        configuration["featureGates"] = {**(configuration.get("featureGates") or {}), **gates}
    return configuration


def establish(api: Api, name: str) -> None:
    """Waits until the API server serves a CRD."""
    tree = {**_CRD, "metadata": {"name": name}}
    until(lambda: f"CRD {name} to be served", lambda: is_true(api.get(tree), "Established"), _TIMEOUT)


def _merged(values: Mapping[str, Any]) -> dict[str, Any]:
    defaults = yaml.safe_load(go_build.file("kueue/values.yaml").read_text())
    return _over(defaults, values, "")


def _over(defaults: Mapping[str, Any], values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The values over the defaults, mapping by mapping; an empty default takes anything."""
    merged = dict(defaults)
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        if defaults and key not in defaults:
            raise RehearsalError(f"values.{here}: the chart of Kueue has no such value")
        default = defaults.get(key)
        both = isinstance(default, dict) and isinstance(value, Mapping)
        merged[key] = _over(default, value, here) if both and default else value
    return merged


def _here(
    configuration: Mapping[str, Any], namespace: str, health: int, port: int, certificates: Path
) -> dict[str, Any]:
    """The configuration with the addresses of this machine, and without what needs a pod."""
    return {
        **configuration,
        "namespace": namespace,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        # Off, version 0.19 reads certificates from /etc, even when it serves no metrics.
        "internalCertManagement": _CERTIFICATES,
        # It would listen on a fixed port.
        "featureGates": {**(configuration.get("featureGates") or {}), "VisibilityOnDemand": False},
    }


def _crds() -> list[Object]:
    folder = go_build.file("kueue/crds")
    paths = sorted(folder.glob("*.yaml"))
    return [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in paths]


def _why(crd: Object) -> str:
    """The name of a CRD that is still there, and why."""
    return f"{crd['metadata']['name']} ({condition(crd, 'Terminating').get('message')})"


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False


def _error_in(output: str) -> str:
    """The manager's own error: its log is one JSON object a line."""
    lines = [line for line in output.splitlines() if '"error"' in line]
    try:
        return str(json.loads(lines[-1])["error"])
    except (IndexError, ValueError, KeyError):
        return output.strip() or "no reason given"
