"""The real Prometheus in place of Google's, for the queries of the dashboards and the alerts.

It asks what the stack's PodMonitorings name, and adds the labels that Managed Prometheus adds.
https://docs.cloud.google.com/stackdriver/docs/managed-prometheus/setup-managed
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import urllib3
import yaml

from engine import go_build
from engine.plan import Plan
from rehearsal.control_plane.api import Api, Object, WaitError, until
from rehearsal.control_plane.kwokctl import free_ports
from tests import plans

# Seconds between two questions to a target. Google's are a minute apart.
_INTERVAL: Final = "1s"
_TIMEOUT: Final = 60.0


class Prometheus:
    """A Prometheus that scrapes some targets. It runs for the time of the context.

    Args:
        folder: An empty folder.
        jobs: Entries of `scrape_configs`.
    """

    def __init__(self, folder: Path, jobs: Iterable[Mapping[str, Any]]) -> None:
        (self._port,) = free_ports(1)
        self._folder = folder
        configuration = {"global": {"scrape_interval": _INTERVAL}, "scrape_configs": list(jobs)}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))

    def __enter__(self) -> Self:
        command = [
            go_build.path_of("prometheus"),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: f"Prometheus: {(self._folder / 'log').read_text()}", self._is_ready, _TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def query(self, query: str) -> list[tuple[dict[str, str], float]]:
        """The present answer to a query: labels and value of each series. NaN is no answer.

        Raises:
            AssertionError: Prometheus does not understand the query.
        """
        answer = urllib3.request("POST", self._url("/api/v1/query"), fields={"query": query}).json()
        assert answer["status"] == "success", f"{query}: {answer}"
        result = answer["data"]["result"]
        series = [(entry["metric"], float(entry["value"][1])) for entry in result]
        return [(labels, value) for labels, value in series if value == value]

    def comes_to_know(self, query: str) -> list[tuple[dict[str, str], float]]:
        """The first answer with data."""
        missing = f"data for {query}"
        until(lambda: f"{missing}; targets: {self.targets()}", lambda: bool(self.query(query)), _TIMEOUT)
        return self.query(query)

    def knows(self, query: str) -> bool:
        """Whether it comes to have an answer."""
        try:
            return bool(self.comes_to_know(query))
        except WaitError:
            return False

    def targets(self) -> str:
        """What it scrapes, and why that fails."""
        answer = urllib3.request("GET", self._url("/api/v1/targets")).json()["data"]["activeTargets"]
        return json.dumps([(target["scrapeUrl"], target["health"], target["lastError"]) for target in answer])

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            return False
        try:
            return urllib3.request("GET", self._url("/-/ready"), retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"


def scrape_config(api: Api | None, monitoring: Object, addresses: Mapping[str, str], cluster: str) -> Object:
    """What Managed Prometheus makes of a PodMonitoring, for the pods that are there now.

    Args:
        api: The API server, for the Secret of a PodMonitoring that has one.
        monitoring: The PodMonitoring.
        addresses: Host and port of each pod, by its name.
        cluster: Name of the cluster.
    """
    (endpoint,) = monitoring["spec"]["endpoints"]
    metadata = monitoring["metadata"]
    config: Object = {
        "job_name": metadata["name"],
        "metrics_path": endpoint["path"],
        "scheme": endpoint.get("scheme", "http"),
        "static_configs": [
            {
                "targets": [address],
                "labels": {
                    "cluster": cluster,
                    "namespace": metadata["namespace"],
                    "pod": pod,
                    "instance": pod,
                },
            }
            for pod, address in addresses.items()
        ],
    }
    if endpoint.get("tls"):
        config["tls_config"] = {"insecure_skip_verify": endpoint["tls"]["insecureSkipVerify"]}
    if api and (authorization := endpoint.get("authorization")):
        reference = authorization["credentials"]["secret"]
        name = {"name": reference["name"], "namespace": metadata["namespace"]}
        secret = api.get({"apiVersion": "v1", "kind": "Secret", "metadata": name}) or {}
        token = base64.b64decode(secret["data"][reference["key"]]).decode()
        config["authorization"] = {"type": authorization["type"], "credentials": token}
    return config


def port_of(pod: Object, monitoring: Object) -> int:
    """The number of the port that a PodMonitoring names. The pod must have its labels."""
    wanted = monitoring["spec"]["selector"]["matchLabels"].items()
    assert wanted <= pod["metadata"]["labels"].items(), "the PodMonitoring does not select the pod"
    (endpoint,) = monitoring["spec"]["endpoints"]
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", ())]
    (number,) = [port["containerPort"] for port in ports if port.get("name") == endpoint["port"]]
    return number


def charts(plan: Plan) -> dict[str, list[str]]:
    """The queries of a stack's dashboard by the titles of its charts."""
    dashboard = json.loads(plans.only(plan, ":Dashboard").inputs["dashboardJson"])
    widgets = [tile["widget"] for tile in dashboard["mosaicLayout"]["tiles"]]
    return {
        widget["title"]: [
            line["timeSeriesQuery"]["prometheusQuery"] for line in widget["xyChart"]["dataSets"]
        ]
        for widget in widgets
    }


def cluster_of(plan: Plan) -> str:
    """The name of the cluster, as the dashboard has it."""
    text = plans.only(plan, ":Dashboard").inputs["dashboardJson"].replace("\\", "")
    (name,) = {*re.findall(r'cluster="([^"]+)"', text)}
    return name


def metrics_in(query: str) -> Iterator[str]:
    """The names of the metrics that a query asks for."""
    yield from re.findall(r"([A-Za-z_][\w:]*)\{", query)
