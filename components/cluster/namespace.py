"""A Kubernetes namespace with Pod Security and NetworkPolicies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.cluster import Cluster
from components.network.ranges import NOT_PUBLIC

# Lets only pods of the namespace reach each other.
INGRESS_FROM_INSIDE: Final = MANIFESTS / "ingress-from-inside.yaml"

# Lets pods connect to each other, and to what connections by name and Google's tokens need.
EGRESS_TO_PLATFORM: Final = MANIFESTS / "egress-to-platform.yaml"
# Lets pods connect to HTTPS servers outside the network: to all of them, or to Google's and the Hub's.
EGRESS_TO_HTTPS: Final = MANIFESTS / "egress-to-https.yaml"
EGRESS_TO_GOOGLE_AND_HUB: Final = MANIFESTS / "egress-to-google-and-hub.yaml"

# Our own pods meet `restricted`, and a violation gives a warning. It is not enforced, because GKE adds a
# container of its own to Ray pods: the log collector of the Ray add-on.
_POD_SECURITY: Final = {
    "pod-security.kubernetes.io/enforce": "baseline",
    "pod-security.kubernetes.io/warn": "restricted",
    "pod-security.kubernetes.io/audit": "restricted",
}


class NamespaceArgs(Args):
    """Arguments of `Namespace`.

    Args:
        network_policies: Manifests of the namespace's NetworkPolicies, with the hole `namespace`.
        internal_ranges: Public addresses that count as private ones: `EGRESS_TO_HTTPS` admits none of them.
    """

    cluster: Cluster
    namespace: str
    network_policies: Sequence[Path]
    internal_ranges: Sequence[str] = ()


class Namespace(Component[NamespaceArgs]):
    """A namespace whose pods reach others, and can be reached, only as its NetworkPolicies allow.

    Attributes:
        kubectl: Start of a kubectl command for this namespace.
    """

    def _declare(self, name: str, args: NamespaceArgs) -> None:
        self.namespace = args.namespace
        self.cluster = args.cluster
        self.kubectl = f"kubectl --namespace {args.namespace}"
        self._namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=args.namespace, labels=_POD_SECURITY),
            opts=args.cluster.inside(self),
        )
        self._policies = [
            Manifest(path, _values(path, args)).create(f"{name}-{path.stem}", self.inside(self))
            for path in args.network_policies
        ]

    def inside(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of an object in this namespace. See `Cluster.inside`."""
        return self.cluster.inside(parent, [self._namespace, *depends_on])

    def running_in(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of an object that starts pods. It waits for the network policies."""
        return self.inside(parent, [*self._policies, *depends_on])


def _values(path: Path, args: NamespaceArgs) -> dict[str, Any]:
    """Values for the holes of a policy's manifest."""
    values: dict[str, Any] = {"namespace": args.namespace}
    if path == EGRESS_TO_HTTPS:
        values["notPublic"] = [*NOT_PUBLIC, *args.internal_ranges]
    return values
