"""What a run logs, as metrics that Prometheus scrapes."""

import math
import os
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from shared.errors import one_line

# A variable that the manifests set, since a run outside a cluster should open no port.
PORT = "METRICS_PORT"


class Exporter:
    """Serves the newest value of everything that the run logs, as `training_loss{run="..."}` and so on.

    Without the variable `METRICS_PORT` it does nothing.
    """

    def __init__(self, run: str):
        self._run = run
        self._registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        self._serves = _serve(self._registry)

    def show(self, values: Mapping[str, float]) -> None:
        """Show these values. A value that is not a finite number leaves the value before it in place."""
        if not self._serves:
            return
        for name, value in values.items():
            if math.isfinite(value):
                self._gauge(name).labels(run=self._run).set(value)

    def _gauge(self, name: str) -> Gauge:
        if name not in self._gauges:
            text = f"{name.replace('_', ' ')}, as in the run's metrics.jsonl"
            self._gauges[name] = Gauge(f"training_{name}", text, ["run"], registry=self._registry)
        return self._gauges[name]


def _serve(registry: CollectorRegistry) -> bool:
    """Start the server, and return whether it runs. A run trains without it too, for example beside another.

    It ends with the process.
    """
    port = os.environ.get(PORT)
    if not port:
        return False
    try:
        start_http_server(int(port), registry=registry)
    except (OSError, ValueError) as error:
        print(f"no metrics at port {port}: {one_line(error)}", flush=True)
        return False
    return True
