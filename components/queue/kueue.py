"""Kueue, which decides which workloads run when the nodes do not suffice for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.cluster import Cluster
from components.cluster.namespace import Namespace, NamespaceArgs

_CHART: Final = "oci://registry.k8s.io/kueue/charts/kueue"
NAMESPACE: Final = "kueue-system"
_INSTALL_SECONDS: Final = 900


class KueueArgs(Args):
    """Arguments of `Kueue`.

    Args:
        version: Version of the chart.
        image: Image of the manager, `NAME@sha256:DIGEST`.
        namespaces: Namespaces whose workloads Kueue may queue.
        frameworks: Kinds of workloads that it queues, as its configuration names them.
        uncounted: Resources that need no quota.
        devices: Classes of devices that pods claim, by the name of the resource that counts them.
        ready_minutes: Minutes after which an admitted workload that is not ready gives its quota back.
        depends_on: Resources that its pods need to pull their image, and what it looks for when it starts.
    """

    cluster: Cluster
    version: str
    image: str
    namespaces: Sequence[str]
    frameworks: Sequence[str]
    uncounted: Sequence[str] = ()
    devices: Mapping[str, str] = field(default_factory=dict)
    ready_minutes: int
    depends_on: Sequence[pulumi.Resource]


class Kueue(Component[KueueArgs]):
    """Kueue from its published Helm chart. One release installs all of it or nothing.

    Attributes:
        cluster: Its cluster.
        home: The namespace of its managers.
    """

    def _declare(self, name: str, args: KueueArgs) -> None:
        self.cluster = args.cluster
        self.home = home = Namespace(
            f"{name}-kueue",
            NamespaceArgs(cluster=args.cluster, namespace=NAMESPACE, network_policies=[]),
            pulumi.ResourceOptions(parent=self),
        )
        # The chart writes a colon between the two.
        repository, _, tag = args.image.rpartition(":")
        resources: dict[str, Any] = {}
        if args.uncounted:
            resources["excludeResourcePrefixes"] = list(args.uncounted)
        if args.devices:
            resources["deviceClassMappings"] = [
                {"name": resource, "deviceClassNames": [kind]} for resource, kind in args.devices.items()
            ]
        holes = {
            "namespaces": list(args.namespaces),
            "repository": repository,
            "tag": tag,
            "frameworks": list(args.frameworks),
            "resources": {"resources": resources} if resources else {},
            "ready": f"{args.ready_minutes}m",
        }
        values = Manifest(MANIFESTS / "kueue-values.yaml", holes).tree
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
            # Helm waits until the manager's pods are ready, and removes a failed installation.
            atomic=True,
            timeout=_INSTALL_SECONDS,
            opts=home.running_in(self, [*args.cluster.nodes, *args.depends_on]),
        )

        self._declare_metrics(name, home)

    def _declare_metrics(self, name: str, home: Namespace) -> None:
        """Has Managed Prometheus read the managers' metrics, with the token of an account of its own."""
        holes = {"namespace": NAMESPACE}

        def create(what: str, depends_on: Sequence[pulumi.Resource] = ()) -> pulumi.Resource:
            manifest = Manifest(MANIFESTS / f"kueue-{what}.yaml", holes)
            return manifest.create(f"{name}-kueue-{what}", home.inside(self, depends_on))

        account = create("metrics-account")
        # The SDK's class keeps the token out of the plain state.
        token = kubernetes.core.v1.Secret(
            f"{name}-kueue-metrics-token",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name="metrics-reader-token",
                namespace=NAMESPACE,
                annotations={"kubernetes.io/service-account.name": "metrics-reader"},
            ),
            # Kubernetes writes the token.
            type="kubernetes.io/service-account-token",
            opts=home.inside(self, [account]),
        )
        access = [create("metrics-access", [account, self._release])]
        access += [create("metrics-token-readers", [create("metrics-token-role")])]
        create("monitoring", [self._release, token, *access])

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of a Kueue object that is in no namespace. See `Cluster.inside`."""
        return self.cluster.inside(parent, [self._release, *depends_on])
