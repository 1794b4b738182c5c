"""Inputs of every resource type that has rules, as the platforms accept them."""

from typing import Any

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
REPOSITORY = "gcp:artifactregistry/repository:Repository"
RUN_JOB = "gcp:cloudrunv2/job:Job"
RUN_SERVICE = "gcp:cloudrunv2/service:Service"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
KUBE_SECRET = "kubernetes:core/v1:Secret"
NAMESPACE = "kubernetes:core/v1:Namespace"
KUBE_SERVICE = "kubernetes:core/v1:Service"
POD = "kubernetes:core/v1:Pod"
JOB = "kubernetes:batch/v1:Job"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
RAY_CLUSTER = "kubernetes:ray.io/v1:RayCluster"
RAY_JOB = "kubernetes:ray.io/v1:RayJob"
RELEASE = "kubernetes:helm.sh/v3:Release"
FLAVOR = "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor"
CLUSTER_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
LOCAL_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"
PRIORITY = "kubernetes:kueue.x-k8s.io/v1beta2:WorkloadPriorityClass"

CONTAINER = {
    "name": "main",
    "image": "registry/image",
    "resources": {
        "requests": {"cpu": "1", "nvidia.com/gpu": "8"},
        "limits": {"cpu": "2", "nvidia.com/gpu": "8"},
    },
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
TEMPLATE = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [CONTAINER],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
}
WORKERS = {
    "groupName": "gpu",
    "replicas": 2,
    "minReplicas": 2,
    "maxReplicas": 2,
    "rayStartParams": {},
    "template": TEMPLATE,
}
RAY_SPEC = {
    "rayVersion": "2.48.0",
    "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": TEMPLATE},
    "workerGroupSpecs": [WORKERS],
}
RUN_TEMPLATE = {
    "serviceAccount": "a@p.iam.gserviceaccount.com",
    "nodeSelector": {"accelerator": "nvidia-l4"},
    "containers": [
        {
            "image": "i",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "volumeMounts": [{"name": "b", "mountPath": "/b"}],
        }
    ],
    "volumes": [{"name": "b", "gcs": {"bucket": "b"}}],
    "vpcAccess": {"egress": "ALL_TRAFFIC", "networkInterfaces": [{"network": "n"}]},
}


def kube(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "thing", "namespace": "ray"}, **fields}


# A TPU slice of four machines, besides the pool in RIGHT.
SLICE_POOL: dict[str, Any] = {
    "cluster": "c",
    "name": "slice",
    "location": "us-east5-b",
    "nodeLocations": ["us-east5-b"],
    "nodeCount": 4,
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    "nodeConfig": {
        "machineType": "ct6e-standard-4t",
        "diskType": "hyperdisk-balanced",
        "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
    },
}
# Inputs that everything must let through, by type.
RIGHT: dict[str, dict[str, Any]] = {
    NETWORK: {"name": "net", "autoCreateSubnetworks": False},
    SUBNETWORK: {
        "network": "n",
        "ipCidrRange": "10.0.0.0/20",
        "secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/16"}],
    },
    NAT: {
        "router": "r",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    },
    CLUSTER: {
        "name": "c",
        "location": "us-central1",
        "enableAutopilot": True,
        "releaseChannel": {"channel": "REGULAR"},
        "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"},
        "addonsConfig": {"rayOperatorConfigs": [{"enabled": True}]},
        "resourceLabels": {"stack": "a4-ray"},
    },
    NODE_POOL: {
        "cluster": "c",
        "name": "pool",
        "nodeCount": 4,
        "placementPolicy": {"type": "COMPACT"},
        "nodeConfig": {
            "machineType": "g2-standard-24",
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": ["r"],
            },
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "guestAccelerators": [
                {
                    "type": "nvidia-l4",
                    "count": 2,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
                }
            ],
        },
    },
    BUCKET: {
        "name": "bucket",
        "location": "us-central1",
        "storageClass": "STANDARD",
        "uniformBucketLevelAccess": True,
        "publicAccessPrevention": "enforced",
        "softDeletePolicy": {"retentionDurationSeconds": 0},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 1}}],
        "labels": {"stack": "a4-ray"},
    },
    OBJECT: {"bucket": "b", "name": "o", "content": "text"},
    BUCKET_MEMBER: {
        "bucket": "b",
        "role": "roles/storage.objectUser",
        "member": "serviceAccount:a@p.iam.gserviceaccount.com",
    },
    ACCOUNT: {"accountId": "a4-ray-nodes"},
    SERVICE: {"service": "container.googleapis.com", "disableOnDestroy": False},
    SECRET: {"secretId": "hf-token", "replication": {"auto": {}}},
    REPOSITORY: {
        "repositoryId": "images",
        "format": "DOCKER",
        "cleanupPolicies": [{"id": "old", "action": "DELETE", "condition": {"olderThan": "2592000s"}}],
    },
    RUN_JOB: {
        "name": "tune",
        "location": "us-central1",
        "runExecutionToken": "1a2b3c4d",
        "template": {"template": {**RUN_TEMPLATE, "timeout": "3600s"}},
    },
    RUN_SERVICE: {
        "name": "serve",
        "location": "us-central1",
        "ingress": "INGRESS_TRAFFIC_ALL",
        "template": {
            **RUN_TEMPLATE,
            "containers": [
                {
                    **RUN_TEMPLATE["containers"][0],
                    "startupProbe": {"failureThreshold": 24, "periodSeconds": 10},
                }
            ],
        },
    },
    CONFIG_MAP: kube("v1", "ConfigMap", data={"train.py": "print()"}),
    KUBE_SECRET: kube("v1", "Secret", stringData={"token": "t"}),
    NAMESPACE: {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ray", "labels": {"a.b/c": "d"}},
    },
    KUBE_SERVICE: kube(
        "v1", "Service", spec={"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}}
    ),
    POD: kube("v1", "Pod", spec=TEMPLATE["spec"]),
    JOB: kube("batch/v1", "Job", spec={"template": TEMPLATE, "completionMode": "Indexed", "completions": 2}),
    DEPLOYMENT: kube(
        "apps/v1",
        "Deployment",
        spec={
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [CONTAINER], "volumes": TEMPLATE["spec"]["volumes"]},
            },
        },
    ),
    RAY_CLUSTER: kube("ray.io/v1", "RayCluster", spec=RAY_SPEC),
    RAY_JOB: kube(
        "ray.io/v1",
        "RayJob",
        spec={
            "entrypoint": "python train.py",
            "shutdownAfterJobFinishes": True,
            "backoffLimit": 2,
            "rayClusterSpec": RAY_SPEC,
            "submitterPodTemplate": TEMPLATE,
        },
    ),
    RELEASE: {
        "name": "kueue",
        "chart": "oci://registry.k8s.io/kueue/charts/kueue",
        "version": "0.19.2",
        "namespace": "kueue-system",
    },
    FLAVOR: kube("kueue.x-k8s.io/v1beta2", "ResourceFlavor", spec={"nodeLabels": {"a": "b"}}),
    CLUSTER_QUEUE: kube(
        "kueue.x-k8s.io/v1beta2",
        "ClusterQueue",
        spec={
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "nvidia.com/gpu"],
                    "flavors": [
                        {
                            "name": "l4",
                            "resources": [
                                {"name": "cpu", "nominalQuota": "66"},
                                {"name": "nvidia.com/gpu", "nominalQuota": 6},
                            ],
                        }
                    ],
                }
            ],
        },
    ),
    LOCAL_QUEUE: kube("kueue.x-k8s.io/v1beta2", "LocalQueue", spec={"clusterQueue": "llm"}),
    PRIORITY: kube("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", value=100, description="low"),
}
