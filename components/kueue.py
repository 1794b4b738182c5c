"""Kueue: decides which workloads run when there is not enough for all of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from components.cluster import Cluster
from components.component import Args, Component
from components.manifest import MANIFESTS, Manifest, Values
from components.namespace import Namespace, NamespaceArgs

_CHART: Final = "oci://registry.k8s.io/kueue/charts/kueue"
NAMESPACE: Final = "kueue-system"
_INSTALL_SECONDS: Final = 900


class KueueArgs(Args):
    """Arguments of `Kueue`.

    Args:
        namespaces: Namespaces whose workloads it may queue.
        depends_on: What its pods need: a way to their image.
    """

    cluster: Cluster
    version: str
    namespaces: Sequence[str]
    depends_on: Sequence[pulumi.Resource]


class Kueue(Component[KueueArgs]):
    """Kueue from its published Helm chart, installed as one release: whole or not at all."""

    group = "cluster"

    def _declare(self, name: str, args: KueueArgs) -> None:
        self._cluster = args.cluster
        home = Namespace(
            f"{name}-kueue",
            NamespaceArgs(cluster=args.cluster, namespace=NAMESPACE, network_policies=[]),
            pulumi.ResourceOptions(parent=self),
        )
        values = Manifest(MANIFESTS / "kueue-values.yaml", {"namespaces": list(args.namespaces)}).tree
        manager = values["managerConfig"]
        manager["controllerManagerConfigYaml"] = yaml.safe_dump(
            manager["controllerManagerConfigYaml"], sort_keys=False
        )
        self._release = kubernetes.helm.v3.Release(
            f"{name}-kueue",
            name="kueue",
            namespace=NAMESPACE,
            chart=_CHART,
            version=args.version,
            values=values,
            # Helm waits until the manager's pods are ready, and takes a failed installation back.
            atomic=True,
            timeout=_INSTALL_SECONDS,
            opts=home.running_in(self, [*args.cluster.nodes, *args.depends_on]),
        )

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of an object of Kueue's outside namespaces; see `Cluster.inside`."""
        return self._cluster.inside(parent, [self._release, *depends_on])


class QueueArgs(Args):
    """Arguments of `Queue`.

    Args:
        queue_name: Name of the queue, as workloads' labels say it.
        node_labels: Labels of the nodes that admitted workloads run on.
        quota: What all admitted workloads together may ask for: `cpu`, `memory`, `storage` (ephemeral) and
            `gpus`, as Kubernetes writes quantities.
        priorities: By name a priority class's `value` (the higher goes first, and pre-empts the lower) and
            `description`.
    """

    kueue: Kueue
    namespace: Namespace
    queue_name: str
    flavor: str
    node_labels: Mapping[str, str]
    quota: Mapping[str, str]
    priorities: Mapping[str, Values]


class Queue(Component[QueueArgs]):
    """A ClusterQueue of one flavor, a LocalQueue in the namespace, and the priority classes.

    Attributes:
        access: What a workload must wait for: its queue, and the class that it names. A workload with an
            unknown class would be accepted and never be admitted, without an error.
    """

    group = "cluster"

    def _declare(self, name: str, args: QueueArgs) -> None:
        self.queue_name = args.queue_name
        namespace = args.namespace.namespace
        inside = args.kueue.inside

        def create(what: str, options: pulumi.ResourceOptions, **values: Any) -> pulumi.Resource:
            return Manifest(MANIFESTS / f"{what}.yaml", values).create(f"{name}-{what}", options)

        flavor = create("resource-flavor", inside(self), name=args.flavor, nodeLabels=dict(args.node_labels))
        cluster_queue = create(
            "cluster-queue",
            inside(self, [flavor]),
            name=args.queue_name,
            namespace=namespace,
            flavor=args.flavor,
            **args.quota,
        )
        # Deletion in the reverse order: none of the three then waits for the finalizer of one that uses it.
        local_queue = create(
            "local-queue",
            args.namespace.inside(self, [cluster_queue]),
            name=args.queue_name,
            namespace=namespace,
            clusterQueue=args.queue_name,
        )
        priorities = [
            Manifest(MANIFESTS / "priority-class.yaml", {**priority, "name": key}).create(
                f"{name}-priority-{key}", inside(self)
            )
            for key, priority in args.priorities.items()
        ]
        self.access: list[pulumi.Resource] = [local_queue, *priorities]
