"""Kueue: decides which workloads run when there is not enough for all of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from components.cluster import Cluster
from components.component import Component
from components.manifest import Manifest
from components.namespace import Namespace, NamespaceArgs

_CHART: Final = "oci://registry.k8s.io/kueue/charts/kueue"
NAMESPACE: Final = "kueue-system"
# The control plane of a private cluster reaches pods on 443 and 10250 unless a firewall rule says more.
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/firewall-rules
_WEBHOOK_PORT: Final = 10250
# Two answer webhooks, one of them decides.
_REPLICAS: Final = 2
# The chart's own requests; its limit of two CPUs would be cut to the request on Autopilot anyway.
_SIZE: Final = {"cpu": "500m", "memory": "512Mi"}
_INSTALL_SECONDS: Final = 900

# Kueue says it is ready once its certificates are in place and its webhook listens, but the way from
# the API server to it may need some seconds more; tried again for at most two minutes.
# https://github.com/kubernetes-sigs/kueue/issues/13036
_SECONDS_BETWEEN_TRIES: Final = 5.0
_TRIES: Final = 24
_NO_ANSWER: Final = "failed calling webhook"


@dataclass(frozen=True, kw_only=True)
class KueueArgs:
    """Arguments of `Kueue`.

    Args:
        cluster: Cluster that it runs in.
        version: Version of the chart and of Kueue.
        configuration: Manifest of the manager's configuration, with the holes `namespaces` and `webhookPort`.
        namespaces: Namespaces whose workloads it may queue.
        depends_on: What its pods need: a way to their image.
    """

    cluster: Cluster
    version: str
    configuration: Path
    namespaces: Sequence[str]
    depends_on: Sequence[pulumi.Resource]


class Kueue(Component):
    """Kueue from its published Helm chart, installed as one release: whole or not at all.

    Attributes:
        timeout: Lets an object that its webhooks check be sent again until they answer.
    """

    group = "cluster"

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        self._cluster = args.cluster
        home = Namespace(
            f"{name}-kueue",
            NamespaceArgs(cluster=args.cluster, namespace=NAMESPACE, network_policies=[]),
            pulumi.ResourceOptions(parent=self),
        )
        self._release = kubernetes.helm.v3.Release(
            f"{name}-kueue",
            name="kueue",
            namespace=NAMESPACE,
            chart=_CHART,
            version=args.version,
            values=_values(args),
            # Helm waits until the manager's pods are ready, and takes a failed installation back.
            atomic=True,
            timeout=_INSTALL_SECONDS,
            opts=home.running_in(self, [*args.cluster.nodes, *args.depends_on]),
        )
        hook = pulumi.ErrorHook(f"{name}-kueue-webhook", try_again)
        self.patience = pulumi.ResourceHookBinding(on_error=[hook])
        self.register_outputs({})

    def judging(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of an object of Kueue's outside namespaces; see `Cluster.inside`."""
        options = self._cluster.inside(parent, [self._release, *depends_on])
        options.hooks = self.patience
        return options


async def try_again(failed: pulumi.ErrorHookArgs) -> bool:
    """Whether an object is sent once more: only while the webhook does not answer."""
    if _NO_ANSWER not in failed.errors[0] or len(failed.errors) > _TRIES:
        return False
    await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
    return True


def _values(args: KueueArgs) -> dict[str, Any]:
    """Values of the chart; its path `managerConfig.controllerManagerConfigYaml` takes a text."""
    filled = {"namespaces": list(args.namespaces), "webhookPort": _WEBHOOK_PORT}
    configuration = Manifest(args.configuration, filled).tree
    return {
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(configuration, sort_keys=False)},
        "webhookService": {"ports": [{"port": 443, "protocol": "TCP", "targetPort": _WEBHOOK_PORT}]},
        "controllerManager": {
            "replicas": _REPLICAS,
            "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "kueue"}},
                }
            ],
            "manager": {
                "resources": {key: {"cpu": "500m", "memory": "512Mi"} for key in ("requests", "limits")}
            },
        },
    }
