"""Kueue's manager as a process beside the API server, in place of what its Helm chart installs.

The manager, its CRDs and its webhooks are the real ones and the configuration is the release's own.
Not there: the chart's Deployment, Service and roles (the manager is an administrator here). The
addresses, certificates and leader election of the configuration are replaced, as they are this
machine's business.
"""

import base64
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import requests
import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, ApiError, Object, condition, is_true, until
from rehearsal.control_plane.certificates import SERVER, Authority
from rehearsal.control_plane.processes import Component, free_ports
from rehearsal.errors import RehearsalError

CHART: Final = "kueue"
_SECRET: Final = "kueue-webhook-server-cert"
_SERVICE: Final = "kueue-webhook-service"
# CRDs with a conversion webhook: config/components/crd/patches/webhook_in_*.yaml, as kustomize uses them.
_CONVERTED: Final = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
# Webhooks of Kueue's own cluster-wide objects; the chart keeps all others off two namespaces.
_EVERYWHERE: Final = ("clusterqueue", "resourceflavor", "workload", "cohort")
_KEPT_OFF: Final = ("kube-system", "kueue-system")
_TIMEOUT: Final = 60.0
_CRD: Final = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
# What the manager says about a configuration that is right, when nobody tells it where the cluster is.
_VALID: Final = "unable to get kubeconfig"


class Kueue:
    """Kueue on one control plane.

    Args:
        api: The API server.
        folder: For certificates, configuration and log.
        kubeconfig: Path of the administrator's.

    Attributes:
        installed: Whether there is something to remove, be it whole or not.
    """

    def __init__(self, api: Api, folder: Path, kubeconfig: Path) -> None:
        self._api = api
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._component: Component | None = None
        self._namespace = ""
        self.installed = False

    def start(self, values: Mapping[str, Any], namespace: str) -> None:
        """Installs the CRDs and webhooks and starts the manager; returns when it is ready.

        Args:
            values: Values of the chart over its own defaults.
            namespace: Namespace of the release; must exist.

        Raises:
            RehearsalError: When the values or the configuration in them are wrong.
            ApiError: When the API server refuses.
        """
        if self.installed:
            raise RehearsalError("a release of Kueue is there already")
        configuration = configured(values)
        self._namespace = namespace
        self._folder.mkdir(parents=True, exist_ok=True)
        self._check(configuration)
        health, webhook = free_ports(2)
        authority = Authority(self._folder / "keys", "kueue-ca", rsa_key=True)
        pair = authority.issue("tls", SERVER, also_at=(f"{_SERVICE}.{namespace}.svc",))
        bundle = base64.b64encode(authority.pair.certificate.read_bytes()).decode()
        url = f"https://127.0.0.1:{webhook}"
        self.installed = True
        self._api.apply(_certificates(authority, pair.certificate, pair.key, namespace))
        self._install_crds(url, bundle)
        here = _here(configuration, namespace, health, webhook, pair.key.parent)
        command = [
            str(go_build.path_of("kueue")),
            f"--config={self._write('kueue.yaml', here)}",
            f"--kubeconfig={self._kubeconfig}",
            f"--zap-log-level={_merged(values)['controllerManager']['manager']['logLevel']}",
        ]
        self._component = Component("kueue", command, self._folder / "kueue.log")
        try:
            for each in _webhooks(url, bundle):
                self._api.apply(each)
            self._component.until(lambda: _answers(f"http://127.0.0.1:{health}/readyz"))
        except BaseException:
            self.stop()
            raise

    def remove(self) -> None:
        """Takes away what `start` brought, as `helm uninstall` does; waits until the CRDs are gone.

        Raises:
            WaitError: When objects with finalizers hold the CRDs back: nobody is there to release them.
        """
        self.stop()
        crds = [{**_CRD, "metadata": {"name": crd["metadata"]["name"]}} for crd in _crds()]
        for each in (*_webhooks("https://127.0.0.1", ""), _secret(self._namespace), *crds):
            self._api.delete(each)
        until(
            lambda: f"the deletion of {', '.join(map(_why, self._left(crds)))}",
            lambda: not self._left(crds),
            _TIMEOUT,
        )
        self.installed = False

    def stop(self) -> None:
        """Ends the manager."""
        if self._component:
            self._component.stop()
        self._component = None

    def _left(self, crds: list[Object]) -> list[Object]:
        return [found for crd in crds if (found := self._touch(crd))]

    def _touch(self, crd: Object) -> Object | None:
        """A CRD with an annotation that changes every few seconds, None when it has gone.

        A deletion that fails once, as it may while the kind's storage wakes up, is tried again within
        milliseconds; when that try meets the change of the first it is given up, and the API server looks
        again when something other than its own condition changes (crd_finalizer.go of apiextensions-apiserver
        0.36).
        """
        try:
            touched = {"metadata": {"annotations": {"rehearsal/touched": str(time.monotonic() // 5)}}}
            return self._api.patch(crd, touched)
        except ApiError:
            return self._api.get(crd)

    def _check(self, configuration: Mapping[str, Any]) -> None:
        """Lets the manager itself judge the configuration; without a cluster it does nothing more."""
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

    def _install_crds(self, url: str, bundle: str) -> None:
        crds = list(_crds())
        for crd in crds:
            if crd["spec"]["names"]["plural"] in _CONVERTED:
                client = {"url": f"{url}/convert", "caBundle": bundle}
                webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
                crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            self._api.apply(crd)
        for crd in crds:
            establish(self._api, crd["metadata"]["name"])

    def _write(self, name: str, tree: Mapping[str, Any]) -> Path:
        path = self._folder / name
        path.write_text(yaml.safe_dump(dict(tree)))
        return path


def configured(values: Mapping[str, Any]) -> dict[str, Any]:
    """The manager's configuration in the chart's values, by default the chart's own.

    Raises:
        RehearsalError: For a value that the chart does not have, or a text that is no YAML mapping. Helm
            takes both and installs something else.
    """
    merged = _merged(values)
    text = merged["managerConfig"]["controllerManagerConfigYaml"]
    try:
        configuration = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RehearsalError(f"managerConfig.controllerManagerConfigYaml is no YAML: {error}") from None
    if not isinstance(configuration, dict):
        raise RehearsalError("managerConfig.controllerManagerConfigYaml is not a mapping")
    configuration.setdefault(
        "internalCertManagement",
        {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
    )
    gates = {gate["name"]: gate["enabled"] for gate in merged["controllerManager"]["featureGates"]}
    if gates:
        configuration["featureGates"] = {**(configuration.get("featureGates") or {}), **gates}
    return configuration


def chart_version() -> str:
    """Version of the chart, and of the manager, that tools/kueue pins."""
    return yaml.safe_load(go_build.file("kueue/Chart.yaml").read_text())["version"]


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
    configuration: Mapping[str, Any], namespace: str, health: int, webhook: int, served: Path
) -> dict[str, Any]:
    """The configuration with this machine's addresses, and with what needs a pod left out."""
    return {
        **configuration,
        "namespace": namespace,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(served)},
        "leaderElection": {"leaderElect": False},
        # On, the manager looks at the certificates in the Secret and finds them good; off, version
        # 0.19 reads others from /etc, even when it serves no metrics.
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": _SERVICE,
            "webhookSecretName": _SECRET,
        },
        # It would listen on a fixed port.
        "featureGates": {**(configuration.get("featureGates") or {}), "VisibilityOnDemand": False},
    }


def _secret(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": namespace}}


def _certificates(authority: Authority, certificate: Path, key: Path, namespace: str) -> Object:
    files = {
        "ca.crt": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "tls.crt": certificate,
        "tls.key": key,
    }
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    return {**_secret(namespace), "data": data}


def _crds() -> list[Object]:
    folder = go_build.file("kueue/crds")
    paths = sorted(folder.glob("*.yaml"))
    return [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in paths]


def _webhooks(url: str, bundle: str) -> list[Object]:
    text = go_build.file("kueue/webhooks.yaml").read_text()
    configurations = [each for each in yaml.safe_load_all(text) if each]
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_KEPT_OFF)}
    for each in configurations:
        each["metadata"]["name"] = f"kueue-{each['metadata']['name']}"
        for webhook in each["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": bundle}
            if webhook["name"].split(".")[0][1:] not in _EVERYWHERE:
                webhook["namespaceSelector"] = {"matchExpressions": [selector]}
    return configurations


def _why(crd: Object) -> str:
    """A CRD that does not go, and what the API server says about it."""
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
