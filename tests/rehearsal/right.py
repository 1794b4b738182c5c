"""Inputs of every resource type that has rules, as the reviewed plans of the stacks have them."""

from typing import Any

from tests import inventory, plans

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
NAT = "gcp:compute/routerNat:RouterNat"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
OBJECT = "gcp:storage/bucketObject:BucketObject"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
ACCOUNT = "gcp:serviceaccount/account:Account"
SERVICE = "gcp:projects/service:Service"
SECRET = "gcp:secretmanager/secret:Secret"
SECRET_VERSION = "gcp:secretmanager/secretVersion:SecretVersion"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
RUN_JOB = "gcp:cloudrunv2/job:Job"
RUN_SERVICE = "gcp:cloudrunv2/service:Service"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
KUBE_SECRET = "kubernetes:core/v1:Secret"
NAMESPACE = "kubernetes:core/v1:Namespace"
KUBE_SERVICE = "kubernetes:core/v1:Service"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
POD = "kubernetes:core/v1:Pod"
JOB = "kubernetes:batch/v1:Job"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RAY_CLUSTER = "kubernetes:ray.io/v1:RayCluster"
RAY_JOB = "kubernetes:ray.io/v1:RayJob"
RELEASE = "kubernetes:helm.sh/v3:Release"
LOCAL_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"

# Parts of names and texts that an inventory leaves out.
_LEFT_OUT = {"<digest>": "0" * 8, "<random>": "0" * 7, "<stack>": "mine"}


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    for mark, text in _LEFT_OUT.items() if isinstance(value, str) else ():
        value = value.replace(mark, text)
    return value


_ROWS = [row for stack in plans.STACKS for row in inventory.written(stack)]


def shipped(name: str) -> dict[str, Any]:
    """Inputs of the resource of a shipped stack with this logical name."""
    (inputs,) = (row["inputs"] for row in _ROWS if row["name"] == name and ":components:" not in row["type"])
    return _whole(inputs)


# A TPU slice of four machines, besides the pool in RIGHT.
SLICE_POOL = shipped("tpu-maxtext-slice-pool")
_POOL, _JOB, _RAY_JOB = map(shipped, ("l4-kueue-l4-pool", "l4-kueue-job", "a4-ray-ray-job"))
_RESERVED = {
    "consumeReservationType": "SPECIFIC_RESERVATION",
    "key": "compute.googleapis.com/reservation-name",
    "values": ["r"],
}
# Type and inputs of everything in the stacks' plans that a platform has.
ROWS: list[tuple[str, dict[str, Any]]] = [
    (row["type"], _whole(row["inputs"])) for row in _ROWS if row["type"].startswith(("gcp:", "kubernetes:"))
]
# Inputs that everything must let through, by type.
RIGHT: dict[str, dict[str, Any]] = {
    **dict(ROWS),
    CLUSTER: shipped("a4-ray-cluster"),
    NODE_POOL: {
        **_POOL,
        "name": "pool",
        "nodeConfig": {**_POOL["nodeConfig"], "reservationAffinity": _RESERVED},
    },
    OBJECT: {"bucket": "b", "name": "o", "content": "text"},
    RUN_JOB: {**shipped("cloudrun-vllm-job"), "name": "tune"},
    JOB: _JOB,
    POD: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **_JOB["spec"]["template"]},
    RAY_JOB: _RAY_JOB,
    RAY_CLUSTER: {**_RAY_JOB, "kind": "RayCluster", "spec": _RAY_JOB["spec"]["rayClusterSpec"]},
}
