"""How the pods of a job on several nodes reach each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Where the libraries of the plugin are in a pod.
_GIB: Final = "/usr/local/gib"
_CLAIM: Final = "network-cards"
# NCCL's settings for A4. With NCCL_NET it ends with an error where it would use TCP otherwise.
# https://github.com/GoogleCloudPlatform/AIHypercomputerSamples (gpu/tuning/verl_rl_autopilot, 2026-11-22)
_NCCL: Final = {
    "LD_LIBRARY_PATH": f"/usr/local/nvidia/lib64:{_GIB}/lib64",
    "NCCL_NET": "gIB",
    "NCCL_ENV_PLUGIN": "gcp",
    "NCCL_CONF_FILE": f"{_GIB}/configs/nccl.a4.conf",
    "NCCL_TUNER_CONFIG_PATH": f"{_GIB}/configs",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_NVLS_ENABLE": "0",
    "GLOO_SOCKET_IFNAME": "eth0",
    # The trainer then refuses to train over TCP: workloads/finetune/transport.py.
    "RUN_TRANSPORT": "rdma",
}


@dataclass(frozen=True, kw_only=True)
class PodNetwork:
    """What a pod that trains has in its manifest to reach the other nodes. By default nothing: TCP.

    Attributes:
        pod: Fields of the pod.
        claims: Fields of its container's resources.
        variables: Environment variables of its container.
        mounts: Volumes of its container.
        volumes: Volumes of the pod.
    """

    pod: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    variables: list[dict[str, str]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def holes(self) -> dict[str, Any]:
        """The values for the manifest."""
        return {
            "network": dict(self.pod),
            "networkClaims": dict(self.claims),
            "networkVariables": self.variables,
            "networkMounts": self.mounts,
            "networkVolumes": self.volumes,
        }


def rdma(plugin_image: str, claim_template: str) -> PodNetwork:
    """The network of a pod that claims the network cards of its node.

    Args:
        plugin_image: Image with NCCL's plugin for these cards (assumption gib-image).
        claim_template: Name of the template of its claim.
    """
    unprivileged = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    size = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}
    copy = {
        "name": "nccl-plugin",
        "image": plugin_image,
        "command": ["cp", "--recursive", f"{_GIB}/.", "/plugin"],
        "resources": {"requests": size, "limits": size},
        "securityContext": unprivileged,
        "volumeMounts": [{"name": "nccl-plugin", "mountPath": "/plugin"}],
    }
    return PodNetwork(
        pod={
            "initContainers": [copy],
            "resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": claim_template}],
        },
        claims={"claims": [{"name": _CLAIM}]},
        variables=[{"name": name, "value": value} for name, value in _NCCL.items()],
        mounts=[{"name": "nccl-plugin", "mountPath": _GIB, "readOnly": True}],
        volumes=[{"name": "nccl-plugin", "emptyDir": {"sizeLimit": "2Gi"}}],
    )
