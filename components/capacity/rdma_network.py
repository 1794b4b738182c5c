"""Network cards of the GPUs for the pods of a job on several nodes.

Pods claim the cards of their node and have NCCL's plugin for them. If the settings say so, nodes first run a
script that lets pods lock memory.
docs/adr/0020-rdma-without-privileges.md
"""

from typing import Any, Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.base.manifest import MANIFESTS, Manifest
from components.base.pod_patch import PodPatch
from components.capacity.node_needs import NodeNeeds
from components.cluster.cluster import Cluster
from components.cluster.namespace import Namespace
from components.storage.bucket import Storage

# GKE's class of these cards.
_DEVICE_CLASS: Final = "mrdma.google.com"
# Name of the claim, of its template, and of the resource by which Kueue counts the cards.
_CARDS: Final = "network-cards"
_FOLDER: Final = "nodes/"
_SCRIPT: Final = MANIFESTS / "lock-memory.sh"
# Where the libraries of the plugin are in a pod.
_GIB: Final = "/usr/local/gib"
_PLUGIN: Final = "nccl-plugin"
# NCCL's settings for A4. With NCCL_NET it ends with an error where it would use TCP otherwise.
# https://github.com/GoogleCloudPlatform/AIHypercomputerSamples (gpu/tuning/verl_rl_autopilot, 2026-11-22)
_VARIABLES: Final = {
    "LD_LIBRARY_PATH": f"/usr/local/nvidia/lib64:{_GIB}/lib64",
    "NCCL_NET": "gIB",
    "NCCL_ENV_PLUGIN": "gcp",
    "NCCL_CONF_FILE": f"{_GIB}/configs/nccl.a4.conf",
    "NCCL_TUNER_CONFIG_PATH": f"{_GIB}/configs",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_NVLS_ENABLE": "0",
    "GLOO_SOCKET_IFNAME": "eth0",
    # The trainer then refuses to train over TCP: workloads/finetune/run/transport.py.
    "RUN_TRANSPORT": "rdma",
}


class RdmaNetworkArgs(Args):
    """Arguments of `RdmaNetwork`.

    Args:
        bucket: Place of the script that every node runs first. None if nodes run none.
        plugin_image: Image with NCCL's plugin (assumption gib-image).
        cards: Number of network cards of a node.
    """

    cluster: Cluster
    namespace: Namespace
    bucket: Storage | None
    plugin_image: str
    cards: int


class RdmaNetwork(Component[RdmaNetworkArgs]):
    """What pods need to use the network cards of their nodes' GPUs: assumption rdma-nodes.

    Attributes:
        needs: What its pods need of their nodes.
    """

    def _declare(self, name: str, args: RdmaNetworkArgs) -> None:
        claims = Manifest(
            MANIFESTS / "network-card-claim.yaml",
            {
                "name": _CARDS,
                "namespace": args.namespace.namespace,
                "class": _DEVICE_CLASS,
                "cards": args.cards,
            },
        ).create(f"{name}-network-card-claim", args.namespace.inside(self))
        first, access = self._first_script(name, args.bucket, args.cluster) if args.bucket else ({}, [])
        self.needs: NodeNeeds = NodeNeeds(
            rule={
                # GKE connects the cards to networks that it creates for the cluster.
                "acceleratorNetworkProfile": "auto",
                **first,
            },
            pool={"dra": {"networking": {"enabled": True}}},
            devices={_CARDS: _DEVICE_CLASS},
            devices_per_pod={_CARDS: args.cards},
            pods=_patch(args.plugin_image),
            access=[*access, claims],
        )

    def _first_script(
        self, name: str, bucket: Storage, cluster: Cluster
    ) -> tuple[dict[str, Any], list[pulumi.Resource]]:
        """Fields of the class's rules with the script, and what nodes need to read it."""
        text = _SCRIPT.read_text()
        script = gcp.storage.BucketObject(
            f"{name}-lock-memory",
            bucket=bucket.bucket_name,
            name=f"{bucket.prefix}{_FOLDER}lock-memory-{fingerprint(text)}.sh",
            content=text,
            opts=pulumi.ResourceOptions(parent=self),
        )
        uri = pulumi.Output.concat("gs://", script.bucket, "/", script.name)
        start = {"gcsUri": uri, "gcsGeneration": script.generation}
        fields = {"nodeSystemConfig": {"linuxNodeConfig": {"customNodeInit": {"initScript": start}}}}
        return fields, [script, self._right(name, bucket, cluster)]

    def _right(self, name: str, bucket: Storage, cluster: Cluster) -> pulumi.Resource:
        """The right of the nodes to read the script."""
        folder = pulumi.Output.concat(
            "projects/_/buckets/", bucket.bucket_name, f"/objects/{bucket.prefix}{_FOLDER}"
        )
        return gcp.storage.BucketIAMMember(
            f"{name}-nodes-script",
            bucket=bucket.bucket_name,
            role="roles/storage.objectViewer",
            member=pulumi.Output.concat("serviceAccount:", cluster.node_account),
            condition=gcp.storage.BucketIAMMemberConditionArgs(
                title="first script of nodes",
                expression=pulumi.Output.concat('resource.name.startsWith("', folder, '")'),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _patch(plugin_image: str) -> PodPatch:
    """The claim of a pod, and NCCL's plugin, which a container copies into the pod before it starts."""
    size = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}
    copy: dict[str, Any] = {
        "name": _PLUGIN,
        "image": plugin_image,
        "command": ["cp", "--recursive", f"{_GIB}/.", "/plugin"],
        "resources": {"requests": size, "limits": size},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": _PLUGIN, "mountPath": "/plugin"}],
    }
    return PodPatch(
        pod={
            "initContainers": [copy],
            "resourceClaims": [{"name": _CARDS, "resourceClaimTemplateName": _CARDS}],
            "volumes": [{"name": _PLUGIN, "emptyDir": {"sizeLimit": "2Gi"}}],
        },
        container={
            "resources": {"claims": [{"name": _CARDS}]},
            "volumeMounts": [{"name": _PLUGIN, "mountPath": _GIB, "readOnly": True}],
        },
        variables=_VARIABLES,
    )
