"""What Google's provider sends for a resource: its inputs in the words of the API.

A name in camelCase is the API's own. A list has an "s" that the API may lack, and a block may be a list of
one. All other names that the plans use are in the tables. The provider's source has them (google-beta,
2026-08-21, `services/*/resource_*.go`).
"""

from collections.abc import Mapping
from typing import Any, Final

from cloud.discovery import Discovery
from cloud.inputs import is_unknown

# The API and the name of each type of resource there.
BODIES: Final[Mapping[str, tuple[str, str]]] = {
    "gcp:artifactregistry/repository:Repository": ("artifactregistry.v1", "Repository"),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": ("artifactregistry.v1", "Binding"),
    "gcp:cloudrunv2/job:Job": ("run.v2", "GoogleCloudRunV2Job"),
    "gcp:cloudrunv2/service:Service": ("run.v2", "GoogleCloudRunV2Service"),
    "gcp:compute/network:Network": ("compute.beta", "Network"),
    "gcp:compute/router:Router": ("compute.beta", "Router"),
    "gcp:compute/routerNat:RouterNat": ("compute.beta", "RouterNat"),
    "gcp:compute/subnetwork:Subnetwork": ("compute.beta", "Subnetwork"),
    "gcp:container/cluster:Cluster": ("container.v1beta1", "Cluster"),
    "gcp:container/nodePool:NodePool": ("container.v1beta1", "NodePool"),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("monitoring.v3", "AlertPolicy"),
    "gcp:monitoring/notificationChannel:NotificationChannel": ("monitoring.v3", "NotificationChannel"),
    "gcp:projects/iAMMember:IAMMember": ("cloudresourcemanager.v1", "Binding"),
    "gcp:secretmanager/secret:Secret": ("secretmanager.v1", "Secret"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": ("secretmanager.v1", "Binding"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretmanager.v1", "AddSecretVersionRequest"),
    "gcp:serviceaccount/account:Account": ("iam.v1", "ServiceAccount"),
    "gcp:storage/bucket:Bucket": ("storage.v1", "Bucket"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": ("cloudresourcemanager.v1", "Binding"),
    "gcp:storage/bucketObject:BucketObject": ("storage.v1", "Object"),
}
# Types that are sent without a body, as the text of one input, or by our own calls.
WITHOUT_BODY: Final = (
    # The provider reads the whole policy, adds the member and sends the policy.
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember",
    "gcp:monitoring/dashboard:Dashboard",
    "gcp:projects/service:Service",
    "gcp:projects/serviceIdentity:ServiceIdentity",
)
# Inputs of all types that are in the address of the call, and those that only the provider reads.
NOT_SENT: Final = frozenset(
    (
        *("accountId", "bucket", "cluster", "location", "project", "region", "repository", "repositoryId"),
        *("router", "secret", "secretId", "serviceAccountId"),
        *("deletionProtection", "forceDestroy", "removeDefaultNodePool"),
        *("content", "source"),  # the content of an object in a bucket
    )
)
# Inputs whose name or place convention does not tell, with their path in the API.
MOVED: Final[Mapping[str, Mapping[str, str]]] = {
    "AcceleratorConfig": {"count": "acceleratorCount", "type": "acceleratorType"},
    "AddSecretVersionRequest": {"secretData": "payload.data"},
    "Binding": {"member": "members"},
    "Bucket": {
        "publicAccessPrevention": "iamConfiguration.publicAccessPrevention",
        "uniformBucketLevelAccess": "iamConfiguration.uniformBucketLevelAccess.enabled",
    },
    "Cluster": {
        "clusterAutoscaling": "autoscaling",
        "datapathProvider": "networkConfig.datapathProvider",
        "enableAutopilot": "autopilot.enabled",
        "enableFqdnNetworkPolicy": "networkConfig.enableFqdnNetworkPolicy",
        "nodeLocations": "locations",
    },
    "ClusterAutoscaling": {"autoProvisioningDefaults": "autoprovisioningNodePoolDefaults"},
    "MaintenancePolicy": {
        "maintenanceExclusions": "window.maintenanceExclusions",
        "recurringWindow": "window.recurringWindow",
    },
    "MonitoringConfig": {
        "enableComponents": "componentConfig.enableComponents",
        "managedPrometheus": "managedPrometheusConfig",
    },
    "NodeConfig": {"guestAccelerators": "accelerators"},
    "NodePool": {"nodeConfig": "config", "nodeCount": "initialNodeCount", "nodeLocations": "locations"},
    "RecurringTimeWindow": {"startTime": "window.startTime", "endTime": "window.endTime"},
    "TimeWindow": {"exclusionOptions": "maintenanceExclusionOptions"},
}
# Lists that are a mapping in the API, with the field that is the key there, and whether it is only the key.
KEYED: Final[Mapping[str, tuple[str, bool]]] = {
    "cleanupPolicies": ("id", False),
    "maintenanceExclusions": ("exclusionName", True),
}


class Translation:
    """The translation of resources of one API.

    Attributes:
        moved: The entries of `MOVED` that a resource has used.
    """

    def __init__(self, api: Discovery) -> None:
        self._api = api
        self.moved: set[tuple[str, str]] = set()

    def body(self, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a resource. Values that are not known yet are left out."""
        sent = {key: value for key, value in inputs.items() if key not in NOT_SENT and key[:2] != "__"}
        return self._object({"$ref": name}, sent)

    def _value(self, schema: Mapping[str, Any], value: Any) -> Any:
        kind, fields = self._api.schema(schema).get("type"), self._api.schema(schema).get("properties")
        if kind == "array":
            items = value if isinstance(value, list) else [value]
            return [self._value(schema["items"], item) for item in items if not is_unknown(item)]
        if kind == "object" and fields:
            return self._object(schema, value[0] if isinstance(value, list) and len(value) == 1 else value)
        if kind == "object" and isinstance(value, Mapping):
            known = {key: inner for key, inner in value.items() if not is_unknown(inner)}
            return {key: self._value(schema["additionalProperties"], inner) for key, inner in known.items()}
        # The engine's numbers are texts in some inputs, and 64-bit numbers are texts in the API.
        if kind == "string" and type(value) is int:
            return str(value)
        if kind == "integer" and isinstance(value, str) and value.isdigit():
            return int(value)
        return value

    def _object(self, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        body: dict[str, Any] = {}
        for key, inner in value.items():
            if is_unknown(inner):
                continue
            path = self._path(schema, key)
            target, described = body, schema
            for step in path[:-1]:
                target = target.setdefault(step, {})
                described = self._field(described, step)
            described = self._field(described, path[-1])
            entries = _by_key(inner, *KEYED[key]) if key in KEYED else inner
            target[path[-1]] = self._value(described, entries)
        return body

    def _path(self, schema: Mapping[str, Any], key: str) -> list[str]:
        """The path of an input in the API: its own name if the API has none of its spellings."""
        name = schema.get("$ref", "")
        if moved := MOVED.get(name, {}).get(key):
            self.moved.add((name, key))
            return moved.split(".")
        fields = self._api.schema(schema).get("properties", {})
        spellings = (key, key.removesuffix("s"), f"{key.removesuffix('ies')}y")
        return [next((spelling for spelling in spellings if spelling in fields), key)]

    def _field(self, schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        return self._api.schema(schema).get("properties", {}).get(key, {})


def _by_key(items: list[Mapping[str, Any]], key: str, is_only_key: bool) -> dict[str, Any]:
    return {
        item[key]: {name: value for name, value in item.items() if name != key or not is_only_key}
        for item in items
    }
