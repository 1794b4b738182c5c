"""A small program with resources of both providers, and what a test may change about it."""

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes
from pulumi import dynamic

TOKEN = "hf_planted_in_a_test"
SETTINGS = {"gcp:project": "rehearsal-project", "hfToken": TOKEN}


def make_cluster(**more: Any) -> tuple[gcp.container.Cluster, kubernetes.Provider]:
    """An Autopilot cluster after its API, and the way into it."""
    container = gcp.projects.Service("container", service="container.googleapis.com")
    cluster = gcp.container.Cluster(
        "cluster",
        location="us-central1",
        enable_autopilot=True,
        deletion_protection=False,
        opts=pulumi.ResourceOptions(depends_on=[container]),
        **more,
    )
    provider = kubernetes.Provider(
        "provider",
        kubeconfig=pulumi.Output.concat("server: https://", cluster.endpoint),
        cluster_identifier=cluster.self_link,
    )
    return cluster, provider


@dataclass
class Small:
    """A cluster with a namespace, a secret and code in it, and a bucket.

    Args:
        data: Data of the ConfigMap.
        bucket: Further arguments of the bucket.
        wait_for_api: Whether the network waits for its API.
    """

    data: dict[str, str] = field(default_factory=lambda: {"train.py": "print()"})
    bucket: dict[str, Any] = field(default_factory=dict)
    wait_for_api: bool = True

    def __call__(self) -> None:
        compute = gcp.projects.Service("compute", service="compute.googleapis.com")
        awaited = pulumi.ResourceOptions(depends_on=[compute] if self.wait_for_api else [])
        network = gcp.compute.Network("network", auto_create_subnetworks=False, opts=awaited)
        cluster, provider = make_cluster(network=network.id)
        inside = pulumi.ResourceOptions(provider=provider, deleted_with=cluster)
        namespace = kubernetes.core.v1.Namespace("namespace", metadata={"name": "ray"}, opts=inside)
        home = kubernetes.meta.v1.ObjectMetaArgs(namespace=namespace.metadata.name)
        kubernetes.core.v1.ConfigMap("code", metadata=home, data=self.data, opts=inside)
        token = pulumi.Config().require_secret("hfToken")
        kubernetes.core.v1.Secret("token", metadata=home, string_data={"token": token}, opts=inside)
        bucket = gcp.storage.Bucket("bucket", location="us-central1", **self.bucket)
        pulumi.export("bucket", bucket.url)


# Resources of the program, the stack itself among them.
COUNT = 10


class _EchoProvider(dynamic.ResourceProvider):
    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        return dynamic.CreateResult(id_="echo", outs={"echoed": props["say"]})


class Echo(dynamic.Resource):
    """A resource that a provider in Python makes."""

    echoed: pulumi.Output[str]

    def __init__(self, name: str, log: str) -> None:
        super().__init__(_EchoProvider(), name, {"say": log, "echoed": None})
