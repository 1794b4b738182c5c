"""Network cards for the pods of a job: claims for the cards, and nodes that let pods lock memory."""

from typing import Any, Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.base.manifest import MANIFESTS, Manifest
from components.capacity.pod_network import PodNetwork, rdma
from components.cluster.cluster import Cluster
from components.cluster.namespace import Namespace
from components.storage.bucket import Storage

# GKE's class of these cards, and the name by which Kueue counts them.
DEVICE_CLASS: Final = "mrdma.google.com"
NETWORK_CARDS: Final = "network-cards"
_CLAIM_TEMPLATE: Final = "network-cards"
_FOLDER: Final = "nodes/"
_SCRIPT: Final = MANIFESTS / "lock-memory.sh"


class RdmaNetworkArgs(Args):
    """Arguments of `RdmaNetwork`.

    Args:
        bucket: Place of the script that every node runs first.
        plugin_image: Image with NCCL's plugin.
        cards: Number of network cards of a node.
    """

    cluster: Cluster
    namespace: Namespace
    bucket: Storage
    plugin_image: str
    cards: int


class RdmaNetwork(Component[RdmaNetworkArgs]):
    """What pods need to use the network cards of their nodes' GPUs: assumption rdma-nodes.

    Attributes:
        pods: The network of each pod.
        node_system: Field `nodeSystemConfig` of the rules of the nodes' class.
        access: What the class and the pods must wait for.
    """

    def _declare(self, name: str, args: RdmaNetworkArgs) -> None:
        script = self._script(name, args)
        claims = Manifest(
            MANIFESTS / "network-card-claim.yaml",
            {
                "name": _CLAIM_TEMPLATE,
                "namespace": args.namespace.namespace,
                "class": DEVICE_CLASS,
                "cards": args.cards,
            },
        ).create(f"{name}-network-card-claim", args.namespace.inside(self))
        self.pods: PodNetwork = rdma(args.plugin_image, _CLAIM_TEMPLATE)
        uri = pulumi.Output.concat("gs://", script.bucket, "/", script.name)
        start = {"gcsUri": uri, "gcsGeneration": script.generation}
        self.node_system: dict[str, Any] = {"linuxNodeConfig": {"customNodeInit": {"initScript": start}}}
        self.access: list[pulumi.Resource] = [script, self._right(name, args), claims]

    def _script(self, name: str, args: RdmaNetworkArgs) -> gcp.storage.BucketObject:
        text = _SCRIPT.read_text()
        return gcp.storage.BucketObject(
            f"{name}-lock-memory",
            bucket=args.bucket.bucket_name,
            name=f"{args.bucket.prefix}{_FOLDER}lock-memory-{fingerprint(text)}.sh",
            content=text,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _right(self, name: str, args: RdmaNetworkArgs) -> pulumi.Resource:
        """The right of the nodes to read the script."""
        folder = pulumi.Output.concat(
            "projects/_/buckets/", args.bucket.bucket_name, f"/objects/{args.bucket.prefix}{_FOLDER}"
        )
        return gcp.storage.BucketIAMMember(
            f"{name}-nodes-script",
            bucket=args.bucket.bucket_name,
            role="roles/storage.objectViewer",
            member=pulumi.Output.concat("serviceAccount:", args.cluster.node_account),
            condition=gcp.storage.BucketIAMMemberConditionArgs(
                title="first script of nodes",
                expression=pulumi.Output.concat('resource.name.startsWith("', folder, '")'),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
