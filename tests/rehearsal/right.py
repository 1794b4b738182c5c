"""Inputs of every resource type that has rules, as the stacks' plans have them.

Only tests read them: the plans are made when the first test asks, and not when tests are collected.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from engine.secrets import SIGNATURE
from tests import inventory, plans
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN, neutral_stacks

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

_RESERVED = {
    "consumeReservationType": "SPECIFIC_RESERVATION",
    "key": "compute.googleapis.com/reservation-name",
    "values": ["r"],
}
# A TPU slice of four machines, besides the pool in RIGHT.
SLICE_POOL: dict[str, Any] = {
    "cluster": "c",
    "location": "us-east5-b",
    "nodeLocations": ["us-east5-b"],
    "nodeCount": 4,
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    "nodeConfig": {
        "machineType": "ct6e-standard-4t",
        "diskType": "hyperdisk-balanced",
        "diskSizeGb": 200,
        "advancedMachineFeatures": {"threadsPerCore": 1},
        "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        "serviceAccount": "nodes@my-project.iam.gserviceaccount.com",
    },
    "upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1},
}
_LOCAL_QUEUE: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "llm", "namespace": "llm"},
    "spec": {"clusterQueue": "llm"},
}
# A release of Kueue.
KUEUE_RELEASE: dict[str, Any] = {
    "chart": "oci://registry.k8s.io/kueue/charts/kueue",
    "version": "0.19.2",
    "name": "kueue",
    "namespace": "kueue-system",
}


@cache
def rows() -> list[tuple[str, dict[str, Any]]]:
    """Type and inputs of every resource in the stacks' plans that a provider creates."""
    planned = [
        resource
        for stack in plans.STACKS
        for resource in sorted(plans.shipped(stack).resources, key=lambda resource: resource.name)
    ]
    providers = ("gcp:", "kubernetes:")
    return [
        (resource.type, _without_marks(resource.inputs))
        for resource in planned
        if resource.type.startswith(providers)
    ]


def types(package: str) -> list[str]:
    """The types of a package, such as `gcp`, in the stacks' inventories."""
    known = set().union(*map(inventory.types, plans.STACKS))
    return sorted(type_token for type_token in known if type_token.startswith(f"{package}:"))


def shipped(stack: str, name: str) -> dict[str, Any]:
    """Inputs of the resource of a stack with this logical name."""
    return _without_marks(plans.named(plans.shipped(stack), name).inputs)


def _without_marks(value: Any) -> Any:
    """A copy of a value in which files are plain paths, without the engine's marks."""
    if isinstance(value, dict):
        marks = (SIGNATURE, "hash") if SIGNATURE in value else ()
        return {key: _without_marks(item) for key, item in value.items() if key not in marks}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


class _Inputs(Mapping[str, dict[str, Any]]):
    """Inputs that every rule must accept, by type."""

    _MORE = (OBJECT, POD, RAY_CLUSTER)

    def __getitem__(self, type_token: str) -> dict[str, Any]:
        return _right()[type_token]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*types("gcp"), *types("kubernetes"), *self._MORE]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _first(rows: list[tuple[str, dict[str, Any]]], type_token: str, field: str) -> dict[str, Any]:
    """The inputs of the first resource of a type that has a field, at any depth."""
    return next(inputs for type_, inputs in rows if type_ == type_token and field in str(inputs))


@cache
def _right() -> dict[str, dict[str, Any]]:
    with neutral_stacks():
        pool, job = shipped(NEUTRAL, "neutral-l4-pool"), shipped(NEUTRAL, "neutral-job")
        run_job = shipped(NEUTRAL_RUN, "neutral-run-job")
    of_stacks = rows()
    ray_job = _first(of_stacks, RAY_JOB, "")
    cluster = _first(of_stacks, CLUSTER, "rayOperatorConfigs")
    node_config = {**pool["nodeConfig"], "reservationAffinity": _RESERVED}
    return {
        **dict(of_stacks),
        CLUSTER: cluster,
        NODE_POOL: {**pool, "name": "pool", "nodeConfig": node_config},
        OBJECT: {"bucket": "b", "name": "o", "content": "text"},
        RUN_JOB: {**run_job, "name": "tune"},
        JOB: job,
        POD: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **job["spec"]["template"]},
        RAY_JOB: ray_job,
        RELEASE: KUEUE_RELEASE,
        LOCAL_QUEUE: _LOCAL_QUEUE,
        RAY_CLUSTER: {**ray_job, "kind": "RayCluster", "spec": ray_job["spec"]["rayClusterSpec"]},
    }


RIGHT = _Inputs()
