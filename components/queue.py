"""A queue: how much there is, and who goes before whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi

from components.component import Component
from components.kueue import Kueue
from components.manifest import Manifest
from components.namespace import Namespace


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What all admitted workloads together may ask for.

    Args:
        gpus: GPUs.
        cpus: CPUs.
        memory_gib: Memory.
        storage_gib: Ephemeral storage.
    """

    gpus: int
    cpus: int
    memory_gib: int
    storage_gib: int


@dataclass(frozen=True, kw_only=True)
class Priority:
    """A priority class.

    Args:
        value: The higher goes first, and pre-empts the lower.
        description: What it is for.
    """

    value: int
    description: str


@dataclass(frozen=True, kw_only=True)
class QueueArgs:
    """Arguments of `Queue`.

    Args:
        kueue: What runs it.
        namespace: Namespace whose workloads are queued.
        queue_name: Name of the queue, as workloads' labels say it.
        flavor: Name of the nodes' flavor.
        node_labels: Labels of the nodes that admitted workloads run on.
        quota: What there is to give.
        priorities: Name of each priority class.
        manifests: Folder with `resource-flavor.yaml`, `cluster-queue.yaml`, `local-queue.yaml` and
            `priority-class.yaml`.
    """

    kueue: Kueue
    namespace: Namespace
    queue_name: str
    flavor: str
    node_labels: Mapping[str, str]
    quota: Quota
    priorities: Mapping[str, Priority]
    manifests: Path


class Queue(Component):
    """A ClusterQueue of one flavor, a LocalQueue in the namespace, and the priority classes.

    Attributes:
        queue_name: Name of the LocalQueue.
        access: What a workload must wait for: its queue, and the class that it names. One of an unknown
            class would be taken, never be admitted, and say nothing.
    """

    group = "cluster"

    def __init__(self, name: str, args: QueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        self.queue_name = args.queue_name
        namespace = args.namespace.namespace
        judging = args.kueue.judging

        def create(what: str, options: pulumi.ResourceOptions, **values: Any) -> pulumi.Resource:
            return Manifest(args.manifests / f"{what}.yaml", values).create(f"{name}-{what}", options)

        flavor = create("resource-flavor", judging(self), name=args.flavor, nodeLabels=dict(args.node_labels))
        cluster_queue = create(
            "cluster-queue",
            judging(self, [flavor]),
            name=args.queue_name,
            namespace=namespace,
            flavor=args.flavor,
            **_quantities(args.quota),
        )
        # Deleted in the reverse order, none of the three waits for the finalizer of another's user.
        options = args.namespace.inside(self, [cluster_queue])
        options.hooks = args.kueue.patience
        local_queue = create(
            "local-queue", options, name=args.queue_name, namespace=namespace, clusterQueue=args.queue_name
        )
        priorities = [
            Manifest(
                args.manifests / "priority-class.yaml",
                {"name": key, "value": priority.value, "description": priority.description},
            ).create(f"{name}-priority-{key}", judging(self))
            for key, priority in args.priorities.items()
        ]
        self.access: list[pulumi.Resource] = [local_queue, *priorities]
        self.register_outputs({"name": self.queue_name})


def _quantities(quota: Quota) -> dict[str, str]:
    """As Kubernetes writes them."""
    return {
        "gpus": str(quota.gpus),
        "cpu": str(quota.cpus),
        "memory": f"{quota.memory_gib}Gi",
        "storage": f"{quota.storage_gib}Gi",
    }
