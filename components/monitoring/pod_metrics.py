"""Metrics of pods, which Managed Prometheus collects."""

from collections.abc import Mapping
from typing import Final

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.namespace import Namespace

# Lets Managed Prometheus reach the ports of servers and trainers.
INGRESS_TO_METRICS: Final = MANIFESTS / "ingress-to-metrics.yaml"
# Names of the ports in the manifests.
SERVER_PORT: Final = "http"
TRAINER_PORT: Final = "metrics-of-run"


class PodMetricsArgs(Args):
    """Arguments of `PodMetrics`.

    Args:
        monitoring_name: Name of the PodMonitoring.
        pod_labels: Labels of the pods.
        port: Name of the port at which they show their metrics.
    """

    namespace: Namespace
    monitoring_name: str
    pod_labels: Mapping[str, str]
    port: str


class PodMetrics(Component[PodMetricsArgs]):
    """Has Managed Prometheus collect the metrics of the pods with these labels, once a minute."""

    def _declare(self, name: str, args: PodMetricsArgs) -> None:
        values = {
            "name": args.monitoring_name,
            "namespace": args.namespace.namespace,
            "labels": dict(args.pod_labels),
            "port": args.port,
        }
        Manifest(MANIFESTS / "pod-monitoring.yaml", values).create(
            f"{name}-monitoring", args.namespace.inside(self)
        )
