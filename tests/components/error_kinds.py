"""Type tokens of resources that fail in the texts of errors."""

BUCKET, CLUSTER, POOL = (
    "gcp:storage/bucket:Bucket",
    "gcp:container/cluster:Cluster",
    "gcp:container/nodePool:NodePool",
)
NETWORK, SERVICE, MEMBER = (
    "gcp:compute/network:Network",
    "gcp:cloudrunv2/service:Service",
    "gcp:projects/iAMMember:IAMMember",
)
NAMESPACE, JOB, QUEUE = (
    "kubernetes:core/v1:Namespace",
    "kubernetes:batch/v1:Job",
    "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue",
)
BUILD = "pulumi-python:dynamic/cloudbuild:Build"
