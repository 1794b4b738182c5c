"""What the providers compute for each resource: the one table behind the stand-ins and the mocks.

Values are made from the inputs alone, so the same plan gives the same values every time. Shapes of
ids and links are those in the "Import" sections and attribute lists of the providers' documentation.
"""

import hashlib
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Final

PROJECT_NUMBER: Final = "123456789012"
_COMPUTE: Final = "https://www.googleapis.com/compute/v1"
_CREATED: Final = "2026-01-01T00:00:00Z"

Inputs = Mapping[str, Any]
Outputs = dict[str, Any]
Known = tuple[str, Outputs]

# Kubernetes kinds that live outside any namespace.
CLUSTER_SCOPED: Final = frozenset(
    {
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComputeClass",
        "CustomResourceDefinition",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "ResourceFlavor",
        "StorageClass",
        "WorkloadPriorityClass",
    }
)


def outputs_for(type_token: str, name: str, inputs: Inputs, project: str) -> Known:
    """Id and outputs of a resource once it exists.

    Args:
        type_token: Resource type.
        name: Logical name; the physical one where the inputs give none.
        inputs: Its inputs.
        project: The provider's project, for resources that name none.
    """
    if type_token.startswith("kubernetes:"):
        return _kubernetes(type_token, name, inputs)
    known = GOOGLE.get(type_token)
    if known is None:
        return f"{name}-id", dict(inputs)
    of_project = str(inputs.get("project") or project)
    item_id, computed = known(_Named(name, inputs, of_project))
    return item_id, {**computed, **inputs}


class _Named:
    """The parts of a Google resource that ids and links are made of."""

    def __init__(self, name: str, inputs: Inputs, project: str) -> None:
        self.inputs = inputs
        self.project = project
        self.name = str(inputs.get("name") or name)
        self.place = str(inputs.get("location") or inputs.get("region") or "us-central1")

    def __getitem__(self, key: str) -> str:
        return str(self.inputs.get(key) or "")

    def digits(self, count: int) -> str:
        """Digits that look random and depend on project, place and name."""
        text = f"{self.project}/{self.place}/{self.name}"
        return str(int(hashlib.sha256(text.encode()).hexdigest(), 16))[:count]


def _project_service(of: _Named) -> Known:
    return f"{of.project}/{of['service']}", {"project": of.project}


def _network(of: _Named) -> Known:
    path = f"projects/{of.project}/global/networks/{of.name}"
    computed = {"selfLink": f"{_COMPUTE}/{path}", "networkId": of.digits(19), "gatewayIpv4": ""}
    return path, {"project": of.project, "name": of.name, **computed}


def _regional(kind: str) -> Callable[[_Named], Known]:
    def known(of: _Named) -> Known:
        path = f"projects/{of.project}/regions/{of.place}/{kind}/{of.name}"
        return path, {
            **_placed(of, "region"),
            "selfLink": f"{_COMPUTE}/{path}",
            "creationTimestamp": _CREATED,
        }

    return known


def _subnetwork(of: _Named) -> Known:
    path, outputs = _regional("subnetworks")(of)
    try:
        gateway = str(ipaddress.ip_network(of["ipCidrRange"])[1])
    except (ValueError, IndexError):
        gateway = ""
    return path, {**outputs, "gatewayAddress": gateway, "subnetworkId": int(of.digits(12))}


def _router_nat(of: _Named) -> Known:
    return f"{of.project}/{of.place}/{of['router']}/{of.name}", _placed(of, "region")


def _firewall(of: _Named) -> Known:
    path = f"projects/{of.project}/global/firewalls/{of.name}"
    return path, {"project": of.project, "name": of.name, "selfLink": f"{_COMPUTE}/{path}"}


def _service_account(of: _Named) -> Known:
    account = of["accountId"] or of.name
    email = f"{account}@{of.project}.iam.gserviceaccount.com"
    path = f"projects/{of.project}/serviceAccounts/{email}"
    computed = {"name": path, "member": f"serviceAccount:{email}", "uniqueId": of.digits(21)}
    return path, {"accountId": account, "email": email, "project": of.project, **computed}


def _cluster(of: _Named) -> Known:
    path = f"projects/{of.project}/locations/{of.place}/clusters/{of.name}"
    digits = of.digits(8)
    endpoint = f"34.{int(digits[:3]) % 256}.{int(digits[3:6]) % 256}.{int(digits[6:]) % 256}"
    return path, {
        **_placed(of, "location"),
        "endpoint": endpoint,
        "masterAuth": {"clusterCaCertificate": "cmVoZWFyc2Fs", "clientCertificate": "", "clientKey": ""},
        "masterVersion": "1.35.1-gke.1000000",
        "selfLink": f"https://container.googleapis.com/v1/{path}",
        "workloadIdentityConfig": {"workloadPool": f"{of.project}.svc.id.goog"},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": f"gke-{digits}.{of.place}.gke.goog"}
        },
        "servicesIpv4Cidr": "10.8.0.0/20",
    }


def _node_pool(of: _Named) -> Known:
    cluster = of["cluster"].removeprefix("https://container.googleapis.com/v1/").split("/")[-1]
    path = f"projects/{of.project}/locations/{of.place}/clusters/{cluster}/nodePools/{of.name}"
    groups = {"instanceGroupUrls": [], "managedInstanceGroupUrls": [], "version": "1.35.1-gke.1000000"}
    return path, {**_placed(of, "location"), **groups}


def _bucket(of: _Named) -> Known:
    link = f"https://www.googleapis.com/storage/v1/b/{of.name}"
    computed = {"url": f"gs://{of.name}", "selfLink": link, "projectNumber": int(PROJECT_NUMBER)}
    return of.name, {"name": of.name, "project": of.project, "storageClass": "STANDARD", **computed}


def _bucket_object(of: _Named) -> Known:
    link = f"https://www.googleapis.com/storage/v1/b/{of['bucket']}/o/{of.name}"
    computed = {"name": of.name, "outputName": of.name, "selfLink": link, "generation": int(of.digits(16))}
    return f"{of['bucket']}-{of.name}", computed


def _secret(of: _Named) -> Known:
    secret = of["secretId"] or of.name
    name = f"projects/{PROJECT_NUMBER}/secrets/{secret}"
    return f"projects/{of.project}/secrets/{secret}", {
        "secretId": secret,
        "name": name,
        "project": of.project,
    }


def _secret_version(of: _Named) -> Known:
    name = f"projects/{PROJECT_NUMBER}/secrets/{of['secret'].split('/')[-1]}/versions/1"
    return name, {"name": name, "version": "1", "enabled": True, "createTime": _CREATED}


def _repository(of: _Named) -> Known:
    path = f"projects/{of.project}/locations/{of.place}/repositories/{of['repositoryId']}"
    uri = f"{of.place}-docker.pkg.dev/{of.project}/{of['repositoryId']}"
    computed = {"name": of["repositoryId"], "registryUri": uri, "createTime": _CREATED}
    return path, {**_placed(of, "location"), **computed}


def _run(kind: str, computed: Callable[[_Named], Outputs]) -> Callable[[_Named], Known]:
    def known(of: _Named) -> Known:
        path = f"projects/{of.project}/locations/{of.place}/{kind}/{of.name}"
        return path, {**_placed(of, "location"), "uid": of.digits(16), "generation": "1", **computed(of)}

    return known


def _run_service(of: _Named) -> Outputs:
    uri = f"https://{of.name}-{PROJECT_NUMBER}.{of.place}.run.app"
    return {"uri": uri, "urls": [uri], "latestReadyRevision": f"{of.name}-00001-abc"}


def _run_job(of: _Named) -> Outputs:
    executed = bool(of["runExecutionToken"] or of["startExecutionToken"])
    return {"executionCount": int(executed)}


def _member(*path: str) -> Callable[[_Named], Known]:
    """An IAM member: its id is the resource's path, the role and the member."""

    def known(of: _Named) -> Known:
        parts = (of.project if key == "project" else of[key] for key in path)
        return "/".join((*parts, of["role"], of["member"])), {"etag": "BwYAAAAAAAA="}

    return known


def _placed(of: _Named, key: str) -> Outputs:
    return {"name": of.name, "project": of.project, key: of.place}


GOOGLE: Final[dict[str, Callable[[_Named], Known]]] = {
    "gcp:projects/service:Service": _project_service,
    "gcp:projects/iAMMember:IAMMember": _member("project"),
    "gcp:compute/network:Network": _network,
    "gcp:compute/subnetwork:Subnetwork": _subnetwork,
    "gcp:compute/router:Router": _regional("routers"),
    "gcp:compute/routerNat:RouterNat": _router_nat,
    "gcp:compute/firewall:Firewall": _firewall,
    "gcp:serviceaccount/account:Account": _service_account,
    "gcp:serviceaccount/iAMMember:IAMMember": _member("serviceAccountId"),
    "gcp:container/cluster:Cluster": _cluster,
    "gcp:container/nodePool:NodePool": _node_pool,
    "gcp:storage/bucket:Bucket": _bucket,
    "gcp:storage/bucketIAMMember:BucketIAMMember": _member("bucket"),
    "gcp:storage/bucketObject:BucketObject": _bucket_object,
    "gcp:secretmanager/secret:Secret": _secret,
    "gcp:secretmanager/secretVersion:SecretVersion": _secret_version,
    "gcp:secretmanager/secretIamMember:SecretIamMember": _member("project", "secretId"),
    "gcp:artifactregistry/repository:Repository": _repository,
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": _member(
        "project", "location", "repository"
    ),
    "gcp:cloudrunv2/job:Job": _run("jobs", _run_job),
    "gcp:cloudrunv2/service:Service": _run("services", _run_service),
    "gcp:cloudrunv2/jobIamMember:JobIamMember": _member("project", "location", "name"),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": _member("project", "location", "name"),
}


def _kubernetes(type_token: str, name: str, inputs: Inputs) -> Known:
    if type_token == "kubernetes:helm.sh/v3:Release":
        return _helm_release(name, inputs)
    given = inputs.get("metadata") or {}
    metadata: dict[str, Any] = {"name": name, **given}
    kind = str(inputs.get("kind") or type_token.split(":")[-1])
    if kind not in CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    path = "/".join(str(metadata[key]) for key in ("namespace", "name") if key in metadata)
    digest = hashlib.sha256(f"{kind}/{path}".encode()).hexdigest()
    uid = f"{digest[:8]}-{digest[8:12]}-4{digest[12:15]}-8{digest[15:18]}-{digest[18:30]}"
    metadata |= {"uid": uid, "generation": 1, "creationTimestamp": _CREATED}
    status = _STATUS.get(kind)
    return path, {**inputs, "metadata": metadata, **({"status": status} if status else {})}


def _helm_release(name: str, inputs: Inputs) -> Known:
    release = str(inputs.get("name") or name)
    namespace = str(inputs.get("namespace") or "default")
    status = {"name": release, "namespace": namespace, "revision": 1, "status": "deployed"}
    return f"{namespace}/{release}", {"name": release, "namespace": namespace, **inputs, "status": status}


_STATUS: Final[dict[str, Outputs]] = {
    "Namespace": {"phase": "Active"},
    "RayCluster": {"state": "ready"},
    "RayJob": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
}
