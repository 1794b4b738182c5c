"""GKE's way from what pods measure to the autoscaler: it reads the pods, and serves Kubernetes' metrics API.

GKE's own parts cannot be had. Here one server stands for them, behind the real API server, and the real
controller of HorizontalPodAutoscalers asks it.
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/expose-custom-metrics-autoscaling
"""

import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import Api, Object, is_true, until
from rehearsal.stand_ins.loopback import LoopbackServer, Request

_VERSION, _KIND = "autoscaling.gke.io/v1beta1", "AutoscalingMetric"
_GROUP: Final = "custom.metrics.k8s.io"
_SERVED: Final = f"{_GROUP}/v1beta2"
# An autoscaler calls a metric `autoscaling.gke.io|OBJECT|METRIC`.
_PREFIX: Final = "autoscaling.gke.io|"
_PATH: Final = re.compile(rf"/apis/{_SERVED}/namespaces/([^/]+)/pods/\*/({re.escape(_PREFIX)}[^|]+\|[^|]+)")
_SERVICE: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "metrics-of-pods", "namespace": "kube-system"},
    "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
}

# Reads a metric of a pod: its name as Prometheus has it, and the endpoint in the pod. None if there is none.
Read = Callable[[Object, Object, str], float | None]


def scrape(pod: Object, endpoint: Object, name: str) -> float | None:
    """The value of a metric at a running pod's endpoint: the sum over its labels."""
    address = f"http://{pod['status']['podIP']}:{endpoint['port']}{endpoint.get('path', '/metrics')}"
    try:
        text = urllib3.request("GET", address, retries=False, timeout=5).data.decode()
    except HTTPError:
        return None
    values = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)", text, re.MULTILINE)
    return sum(map(float, values)) if values else None


class MetricsOfPods(LoopbackServer):
    """Serves the metrics that the AutoscalingMetrics of a cluster name. It is a context.

    Args:
        api: The API server.
        keys: Folder of the control plane's keys.
        read: Reads a metric of a pod. By default from the pod itself.
    """

    def __init__(self, api: Api, keys: Path, read: Read = scrape) -> None:
        self._api, self._read = api, read
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(keys / "admin.crt", keys / "admin.key")

    def __enter__(self) -> Self:
        """Starts to serve, behind the API server."""
        super().__enter__()
        offer = _api_service(urlsplit(self.address).port)
        try:
            self._api.apply(_SERVICE)
            self._api.apply(offer)
            until(
                lambda: f"the metrics API: {(self._api.get(offer) or {}).get('status')}",
                lambda: is_true(self._api.get(offer), "Available"),
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the metrics back."""
        # An API that nobody serves would keep every namespace from going.
        for tree in (_api_service(None), _SERVICE):
            with suppress(ConnectionError):
                self._api.delete(tree)
        super().__exit__()

    def serve(self, request: Request) -> None:
        """Answers what the API server asks for itself, and for a controller."""
        url = urlsplit(request.path)
        path = unquote(url.path)
        if path == f"/apis/{_SERVED}":
            kind = {"name": "pods/*", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
            resources = [{**kind, "singularName": ""}]
            request.answer_json(
                200, _answer("APIResourceList", "v1", groupVersion=_SERVED, resources=resources)
            )
        elif query := _PATH.fullmatch(path):
            selector = parse_qs(url.query).get("labelSelector", [""])[0]
            items = [*self._values(*query.groups(), selector)]
            request.answer_json(200, _answer("MetricValueList", _SERVED, metadata={}, items=items))
        else:
            request.answer_json(404, _answer("Status", "v1", status="Failure", code=404))

    def _values(self, namespace: str, metric: str, selector: str) -> Iterator[dict[str, Any]]:
        """The values of a metric for the ready pods that a selector and the AutoscalingMetric choose."""
        owner, name = metric.removeprefix(_PREFIX).split("|")
        metadata = {"namespace": namespace, "name": owner}
        tree = self._api.get({"apiVersion": _VERSION, "kind": _KIND, "metadata": metadata})
        asked = dict(term.split("=", 1) for term in selector.split(",") if term)
        for labels, endpoint, measured_as in _gauges(tree, name) if tree else ():
            for pod in self._api.list("v1", "Pod", namespace, {**labels, **asked}):
                value = self._read(pod, endpoint, measured_as) if is_true(pod, "Ready") else None
                if value is not None:
                    yield _item(pod, metric, value)


def _api_service(port: int | None) -> Object:
    """The object by which the API server serves the metrics API, from a port of this machine."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1beta2.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "version": "v1beta2",
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {**_SERVICE["metadata"], "port": port},
        },
    }


def _answer(kind: str, version: str, **fields: Any) -> Object:
    return {"kind": kind, "apiVersion": version, **fields}


def _gauges(tree: Object, name: str) -> Iterator[tuple[dict[str, str], Object, str]]:
    """The gauges of a name in an AutoscalingMetric: labels of the pods, endpoint, name at the endpoint."""
    for entry in tree["spec"]["metrics"]:
        labels = entry["pod"]["selector"]["matchLabels"]
        for container in entry["pod"]["containers"]:
            gauges = (metric["gauge"] for metric in container["metrics"])
            measured = [gauge.get("prometheusMetricName", name) for gauge in gauges if gauge["name"] == name]
            yield from ((labels, container["endpoint"], measured_as) for measured_as in measured)


def _item(pod: Object, metric: str, value: float) -> Object:
    place = {key: pod["metadata"][key] for key in ("namespace", "name")}
    return {
        "describedObject": {"kind": "Pod", "apiVersion": "v1", **place},
        "metric": {"name": metric},
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        # A quantity has no fractions but thousandths.
        "value": f"{round(value * 1000)}m",
    }
