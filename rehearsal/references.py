"""What a Google resource needs to exist, and what keeps one from being deleted."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given
from rehearsal.fake_cloud import BUCKET, CLUSTER, NODE_POOL, FakeCloud, Item, Rejected

_NETWORK: Final = "gcp:compute/network:Network"
_SUBNETWORK: Final = "gcp:compute/subnetwork:Subnetwork"
_ROUTER: Final = "gcp:compute/router:Router"
_ACCOUNT: Final = "gcp:serviceaccount/account:Account"
_SECRET: Final = "gcp:secretmanager/secret:Secret"
_SERVICE: Final = "gcp:projects/service:Service"

# APIs that are on in every new project.
# https://docs.cloud.google.com/service-usage/docs/enabled-service
_ALWAYS_ON: Final = frozenset(
    {
        "logging.googleapis.com",
        "monitoring.googleapis.com",
        "serviceusage.googleapis.com",
        "storage.googleapis.com",
    }
)
_APIS: Final = {
    "artifactregistry": "artifactregistry.googleapis.com",
    "cloudrunv2": "run.googleapis.com",
    "compute": "compute.googleapis.com",
    "container": "container.googleapis.com",
    "projects/iAM": "cloudresourcemanager.googleapis.com",
    "secretmanager": "secretmanager.googleapis.com",
    "serviceaccount": "iam.googleapis.com",
    "storage": "storage.googleapis.com",
}

# Input paths that refer to another resource; `[]` steps through a list.
_NEEDS: Final[Mapping[str, Mapping[str, str]]] = {
    _SUBNETWORK: {"network": _NETWORK},
    _ROUTER: {"network": _NETWORK},
    "gcp:compute/firewall:Firewall": {"network": _NETWORK},
    "gcp:compute/routerNat:RouterNat": {"router": _ROUTER},
    CLUSTER: {
        "network": _NETWORK,
        "subnetwork": _SUBNETWORK,
        "clusterAutoscaling.autoProvisioningDefaults.serviceAccount": _ACCOUNT,
        "nodeConfig.serviceAccount": _ACCOUNT,
    },
    NODE_POOL: {"cluster": CLUSTER, "nodeConfig.serviceAccount": _ACCOUNT},
    "gcp:storage/bucketIAMMember:BucketIAMMember": {"bucket": BUCKET},
    "gcp:storage/bucketObject:BucketObject": {"bucket": BUCKET},
    "gcp:secretmanager/secretVersion:SecretVersion": {"secret": _SECRET},
    "gcp:secretmanager/secretIamMember:SecretIamMember": {"secretId": _SECRET},
    "gcp:serviceaccount/iAMMember:IAMMember": {"serviceAccountId": _ACCOUNT},
    "gcp:cloudrunv2/job:Job": {
        "template.template.serviceAccount": _ACCOUNT,
        "template.template.vpcAccess.networkInterfaces[].network": _NETWORK,
        "template.template.vpcAccess.networkInterfaces[].subnetwork": _SUBNETWORK,
        "template.template.volumes[].gcs.bucket": BUCKET,
        "template.template.containers[].envs[].valueSource.secretKeyRef.secret": _SECRET,
    },
    "gcp:cloudrunv2/service:Service": {
        "template.serviceAccount": _ACCOUNT,
        "template.vpcAccess.networkInterfaces[].network": _NETWORK,
        "template.vpcAccess.networkInterfaces[].subnetwork": _SUBNETWORK,
        "template.volumes[].gcs.bucket": BUCKET,
        "template.containers[].envs[].valueSource.secretKeyRef.secret": _SECRET,
    },
    "gcp:cloudrunv2/jobIamMember:JobIamMember": {"name": "gcp:cloudrunv2/job:Job"},
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": {"name": "gcp:cloudrunv2/service:Service"},
}

# What keeps a resource from being deleted: users by type.
_HELD_BY: Final[Mapping[str, tuple[str, ...]]] = {
    _NETWORK: (_SUBNETWORK, _ROUTER, "gcp:compute/firewall:Firewall", CLUSTER),
    _SUBNETWORK: (CLUSTER, "gcp:cloudrunv2/job:Job", "gcp:cloudrunv2/service:Service"),
    CLUSTER: (),
}


def api(type_token: str) -> str | None:
    """The API that serves a resource type; None where it is on in every project."""
    path = type_token.split(":")[1]
    found = next((name for prefix, name in _APIS.items() if path.startswith(prefix)), None)
    return None if found in _ALWAYS_ON else found


def of(type_token: str, inputs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every reference that the inputs make: path, type referred to, and the reference itself."""
    for path, target in _NEEDS.get(type_token, {}).items():
        for value in at(inputs, path):
            if isinstance(value, str) and value:
                yield path, target, value


# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming
_STREAMING: Final = "containerfilesystem.googleapis.com"


def require(cloud: FakeCloud, type_token: str, inputs: Mapping[str, Any]) -> None:
    """Refuses a resource whose API is off or that refers to something that does not exist."""
    streaming = [_STREAMING] if given(inputs, "nodeConfig.gcfsConfig.enabled") else []
    enabled = {item.inputs["service"] for item in cloud.of_type(_SERVICE)}
    for needed in (api(type_token), *streaming):
        if needed and needed not in enabled:
            raise Rejected(f"{needed} has not been used in this project before or it is disabled")
    for path, target, value in of(type_token, inputs):
        if cloud.named(target, value) is None:
            raise Rejected(f"{path}: {target.split(':')[-1].lower()} {value!r} was not found")
    _require_member(cloud, inputs)
    _require_ranges(cloud, inputs)
    if type_token == NODE_POOL:
        _require_standard(cloud, str(inputs["cluster"]))


def refuse_if_needed(cloud: FakeCloud, item: Item) -> None:
    """Refuses the deletion of something still in use, and of a bucket with objects in it."""
    for user_type in _HELD_BY.get(item.type, ()):
        for user in cloud.of_type(user_type):
            if any(
                item.is_named(value) for _, target, value in of(user_type, user.inputs) if target == item.type
            ):
                raise Rejected(f"{item.id} is already being used by {user.id}")
    if item.type == BUCKET and item.id in cloud.written_buckets and not item.inputs.get("forceDestroy"):
        raise Rejected(
            f"error trying to delete bucket {item.id} containing objects without force_destroy set to true"
        )


def _require_member(cloud: FakeCloud, inputs: Mapping[str, Any]) -> None:
    """IAM refuses a service account that does not exist, and a workload pool before its first cluster.

    The pool: terraform-google-modules/terraform-google-kubernetes-engine issue 916.
    """
    member = inputs.get("member")
    if not isinstance(member, str):
        return
    email = member.removeprefix("serviceAccount:")
    if email != member and _is_user_made(email) and cloud.named(_ACCOUNT, email) is None:
        raise Rejected(f"service account {email} does not exist")
    if ".svc.id.goog" in member and not any(map(_has_identities, cloud.of_type(CLUSTER))):
        raise Rejected("identity pool does not exist: it comes with the project's first cluster")


def _has_identities(cluster: Item) -> bool:
    """Whether service accounts of a cluster are known to IAM: on Autopilot always."""
    return bool(cluster.inputs.get("enableAutopilot") or cluster.inputs.get("workloadIdentityConfig"))


def _require_standard(cloud: FakeCloud, cluster: str) -> None:
    """Autopilot makes its nodes by itself and takes no pool."""
    home = cloud.named(CLUSTER, cluster)
    if home is not None and home.inputs.get("enableAutopilot"):
        raise Rejected("Autopilot clusters do not support mutating node pools")


def _is_user_made(email: str) -> bool:
    """Google's own service agents are named `service-NUMBER@...` or have domains of their own."""
    return email.endswith(".iam.gserviceaccount.com") and not email.startswith("service-")


def _require_ranges(cloud: FakeCloud, inputs: Mapping[str, Any]) -> None:
    """A cluster's secondary ranges are those of its subnetwork."""
    policy = inputs.get("ipAllocationPolicy")
    subnet = cloud.named(_SUBNETWORK, str(inputs.get("subnetwork")))
    if not isinstance(policy, Mapping) or subnet is None:
        return
    ranges = {entry.get("rangeName") for entry in subnet.inputs.get("secondaryIpRanges", ())}
    for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
        if policy.get(key) not in (None, *ranges):
            raise Rejected(f"pod secondary range {policy[key]!r} not found in subnet {subnet.id}")
