"""The dashboard and the alerts of a scenario on GKE, and the pods whose metrics are collected for them."""

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi

from components.monitoring.monitoring import Monitoring
from components.monitoring.pod_metrics import SERVER_PORT, TRAINER_PORT, PodMetrics, PodMetricsArgs
from stacks.platform import GkePlatform, StackContext

# The charts of every scenario whose accelerators are GPUs, and those of a TPU slice.
GPUS: Final = ("accelerators", "gpus", "pods")
TPUS: Final = ("accelerators", "tpus", "pods")
# What Kueue shows.
QUEUE: Final = "queue"
_ALERTS: Final = ("job-failed", "accelerators-idle", "pods-pending")
_ALERT_OF_QUEUE: Final = "queue-pending"


def gke_monitoring(
    stack: StackContext,
    platform: GkePlatform,
    charts: Sequence[str],
    *,
    trainers: Mapping[str, str] | None = None,
    servers: Mapping[str, str] | None = None,
) -> dict[str, pulumi.Input[str]]:
    """Declares what the user sees of the stack. Returns the output with the dashboard's address.

    Args:
        charts: See `MonitoringArgs`.
        trainers: Labels of the pods that train.
        servers: Labels of the pods that serve.
    """
    pods = {"training": (trainers, TRAINER_PORT), "serving": (servers, SERVER_PORT)}
    for monitoring_name, (labels, port) in pods.items():
        if labels:
            PodMetrics(
                f"{stack.name}-{monitoring_name}",
                PodMetricsArgs(
                    namespace=platform.namespace,
                    monitoring_name=monitoring_name,
                    pod_labels=labels,
                    port=port,
                ),
            )
    names = {"cluster": platform.cluster.resource.name, "namespace": platform.namespace.namespace}
    alerts = [*_ALERTS, *([_ALERT_OF_QUEUE] if QUEUE in charts else [])]
    monitoring: Monitoring = stack.monitoring(charts, alerts, names)
    return {"openMonitoring": monitoring.dashboard}
