"""The network cards of a simulated node's GPUs, as GKE's driver for them reports them.

An A4 node has one card without RDMA, and one with RDMA for each GPU. Their attributes are in the published
autoscaler (GoogleCloudPlatform/cluster-autoscaler, 2026-08-21,
pkg/cloudprovider/gke/machinetypes/dranet.go). It expects them on nodes of a class that enables them and has a
network profile.
"""

from collections.abc import Mapping
from typing import Any, Final

from rehearsal.control_plane.api import Object

_VERSION: Final = "resource.k8s.io/v1"
_DRIVER: Final = "dra.net"
# GKE installs it with every cluster. Its selector is not published.
DEVICE_CLASS: Final[Object] = {
    "apiVersion": _VERSION,
    "kind": "DeviceClass",
    "metadata": {"name": "mrdma.google.com"},
    "spec": {
        "selectors": [
            {"cel": {"expression": f'device.driver == "{_DRIVER}" && device.attributes["{_DRIVER}"].rdma'}}
        ]
    },
}


def has_cards(compute_class: Object, rule: Mapping[str, Any]) -> bool:
    """Whether the nodes of a class's rule offer their network cards to pods."""
    config = compute_class["spec"].get("nodePoolConfig") or {}
    enabled = ((config.get("dra") or {}).get("networking") or {}).get("enabled")
    return bool(enabled and rule.get("acceleratorNetworkProfile"))


def slice_of(node: Object, count: int) -> Object:
    """The cards of a node: one without RDMA, and `count` with it."""
    name = node["metadata"]["name"]
    plain = _card("eth1", rdma=False, vendor="Google, Inc.")
    cards = [_card(f"gpu{number}rdma0", rdma=True, vendor="Mellanox Technologies") for number in range(count)]
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        # It goes with its node.
        "metadata": {
            "name": f"{name}-{_DRIVER}",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ],
        },
        "spec": {
            "driver": _DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [plain, *cards],
        },
    }


def _card(interface: str, *, rdma: bool, vendor: str) -> dict[str, Any]:
    attributes = {
        f"{_DRIVER}/ifName": {"string": interface},
        f"{_DRIVER}/rdma": {"bool": rdma},
        f"{_DRIVER}/pciVendor": {"string": vendor},
        f"{_DRIVER}/mtu": {"int": 8896},
    }
    return {"name": interface, "attributes": attributes}
