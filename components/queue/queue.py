"""A queue of Kueue, in which workloads wait for quota and for nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import pulumi

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest, Values
from components.cluster.namespace import Namespace
from components.queue.kueue import Kueue
from components.queue.node_requests import NodeRequests

_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"


class QueueArgs(Args):
    """Arguments of `Queue`.

    Args:
        queue_name: Name of the queue, which workloads carry as a label.
        flavors: Labels of the nodes of each flavor, Kueue's word for one kind of node, by its name and in the
            order in which it is tried.
        quota: Most that all admitted workloads together may request of one flavor, as a Kubernetes quantity
            by resource.
        tolerations: Taints of the nodes that the pods of the queue tolerate.
        requests: Has the nodes of each workload requested at once. None if nodes come one by one.
        priorities: The `value` and `description` of each priority class, by its name. A workload with a
            higher value goes first and preempts a lower one.
    """

    kueue: Kueue
    namespace: Namespace
    queue_name: str
    flavors: Mapping[str, Mapping[str, str]]
    quota: Mapping[str, str]
    tolerations: Sequence[Values] = ()
    requests: NodeRequests | None = None
    priorities: Mapping[str, Values] = field(default_factory=dict)


class Queue(Component[QueueArgs]):
    """A ClusterQueue with its flavors, a LocalQueue in the namespace, and the priority classes.

    Attributes:
        access: The queue and the priority classes, for which a workload must wait. Kueue would accept a
            workload with an unknown class, never admit it and report no error.
    """

    def _declare(self, name: str, args: QueueArgs) -> None:
        self.queue_name = args.queue_name
        namespace = args.namespace.namespace
        inside = args.kueue.inside

        def create(what: str, options: pulumi.ResourceOptions, **values: Any) -> pulumi.Resource:
            return Manifest(MANIFESTS / f"{what}.yaml", values).create(f"{name}-{what}", options)

        several = len(args.flavors) > 1
        tolerations = {"tolerations": list(args.tolerations)} if args.tolerations else {}
        flavors = [
            Manifest(
                MANIFESTS / "resource-flavor.yaml",
                {"name": flavor, "nodeLabels": dict(labels), "tolerations": tolerations},
            ).create(f"{name}-flavor-{flavor}" if several else f"{name}-resource-flavor", inside(self))
            for flavor, labels in args.flavors.items()
        ]
        requests = args.requests
        checks = {"admissionChecks": [{"name": requests.check}]} if requests else {}
        quota = [{"name": resource, "nominalQuota": most} for resource, most in args.quota.items()]
        cluster_queue = create(
            "cluster-queue",
            inside(self, [*flavors, requests.access] if requests else flavors),
            name=args.queue_name,
            namespace=namespace,
            resources=list(args.quota),
            flavors=[{"name": flavor, "resources": quota} for flavor in args.flavors],
            checks={"admissionChecksStrategy": checks} if checks else {},
        )
        # Pulumi deletes these in reverse order, so that none waits for the finalizer of an object that uses
        # it.
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

    def labels(self, priority: str | None = None) -> dict[str, str]:
        """Labels with which a workload waits in this queue, with one of its priorities."""
        priorities = {_PRIORITY_LABEL: priority} if priority else {}
        return {_QUEUE_LABEL: self.queue_name, **priorities}
