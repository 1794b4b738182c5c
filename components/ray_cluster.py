"""A Ray cluster on Kubernetes, run by the KubeRay operator."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pulumi

from components.component import Component
from components.fingerprint import hashed_name
from components.image import Image
from components.manifest import Manifest, Values
from components.namespace import Namespace

# https://github.com/ray-project/kuberay: longer names make services whose names are too long.
_MAX_NAME: Final = 53


@dataclass(frozen=True, kw_only=True)
class RayClusterArgs:
    """Arguments of `RayCluster`, or of the cluster that a `RayJob` starts for itself.

    Args:
        namespace: Namespace that it runs in.
        manifest: RayCluster manifest, with the holes `name`, `namespace`, `image` and those of `values`.
        values: For the manifest's other holes.
        image: What its pods run in.
        depends_on: What its pods need and the manifest names: secrets, accounts, a way out.
    """

    namespace: Namespace
    manifest: Path
    values: Values
    image: Image
    depends_on: list[pulumi.Resource] = field(default_factory=list)

    def filled(self, name: str) -> Manifest:
        """The manifest of a cluster called `name`."""
        fixed = {"name": name, "namespace": self.namespace.namespace, "image": self.image.uri}
        return Manifest(self.manifest, {**self.values, **fixed})


class RayCluster(Component):
    """A long-lived Ray cluster. The operator does not roll pods, so another spec is another cluster.

    Attributes:
        cluster_name: Name of the RayCluster.
        namespace: Namespace that it runs in.
        access: What a job on it must wait for.
    """

    group = "workload"

    def __init__(self, name: str, args: RayClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        self.cluster_name = hashed_name(name, _MAX_NAME, args.image.fingerprint, args.filled(name).tree)
        self.namespace = args.namespace
        self.access: pulumi.Resource = args.filled(self.cluster_name).create(
            f"{name}-ray-cluster", args.namespace.running_in(self, args.depends_on)
        )
        self.register_outputs({"name": self.cluster_name})
