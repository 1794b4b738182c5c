"""Which changes replace and which update, as the providers decide it."""

from typing import Any

import pytest

from engine.plan import changed_paths
from tests.rehearsal.asking import Platform

CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
JOB = "kubernetes:batch/v1:Job"
SERVICE = "kubernetes:core/v1:Service"


def kube(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "n"}, **fields}


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], list[str], list[str]]] = [
    # type, old inputs, new inputs, what updates, what replaces
    (BUCKET, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, ["labels"], []),
    (BUCKET, {"location": "us"}, {"location": "eu"}, [], ["location"]),
    (BUCKET, {"location": "us"}, {"location": "us"}, [], []),
    (
        CLUSTER,
        {"releaseChannel": {"channel": "RAPID"}},
        {"releaseChannel": {"channel": "STABLE"}},
        ["releaseChannel"],
        [],
    ),
    (CLUSTER, {"enableAutopilot": True}, {}, [], ["enableAutopilot"]),
    (
        CLUSTER,
        {"privateClusterConfig": {"masterIpv4CidrBlock": "a", "enablePrivateNodes": True}},
        {"privateClusterConfig": {"masterIpv4CidrBlock": "b", "enablePrivateNodes": True}},
        [],
        ["privateClusterConfig"],
    ),
    (NODE_POOL, {"nodeCount": 1}, {"nodeCount": 2}, ["nodeCount"], []),
    (NODE_POOL, {"nodeConfig": {"spot": True}}, {"nodeConfig": {"spot": False}}, [], ["nodeConfig"]),
    (NODE_POOL, {"nodeConfig": {"labels": {"a": "b"}}}, {"nodeConfig": {"labels": {}}}, ["nodeConfig"], []),
    (
        NODE_POOL,
        {"nodeConfig": {"guestAccelerators": [{"type": "a", "count": 1}]}},
        {"nodeConfig": {"guestAccelerators": [{"type": "a", "count": 2}]}},
        [],
        ["nodeConfig"],
    ),
    (SUBNETWORK, {"ipCidrRange": "10.0.0.0/20"}, {"ipCidrRange": "10.0.0.0/16"}, ["ipCidrRange"], []),
    (SUBNETWORK, {"ipCidrRange": "10.0.0.0/16"}, {"ipCidrRange": "10.0.0.0/20"}, [], ["ipCidrRange"]),
    (BUCKET_MEMBER, {"role": "a"}, {"role": "b"}, [], ["role"]),
    (CONFIG_MAP, kube("ConfigMap", data={"a": "b"}), kube("ConfigMap", data={"a": "c"}), [], ["data"]),
    (
        JOB,
        kube("Job", spec={"template": {"spec": {"x": 1}}}),
        kube("Job", spec={"template": {"spec": {"x": 2}}}),
        [],
        ["spec"],
    ),
    (JOB, kube("Job", spec={"backoffLimit": 1}), kube("Job", spec={"backoffLimit": 2}), ["spec"], []),
    (SERVICE, kube("Service", spec={"clusterIP": "None"}), kube("Service", spec={}), [], ["spec"]),
]


@pytest.mark.parametrize(("type_token", "olds", "news", "updates", "replaces"), CHANGES)
def test_a_change_updates_or_replaces(
    type_token: str, olds: dict[str, Any], news: dict[str, Any], updates: list[str], replaces: list[str]
) -> None:
    found = Platform().diff(type_token, "x", olds, news)
    assert {path.split(".")[0] for path in found.replaces} == {*replaces}
    assert {path.split(".")[0] for path in (*found.updates, *found.replaces)} == {*updates, *replaces}


def test_another_namespace_is_another_object() -> None:
    olds = kube("ConfigMap")
    found = Platform().diff(CONFIG_MAP, "x", olds, {**olds, "metadata": {"name": "a", "namespace": "m"}})
    assert found.replaces == ["metadata.namespace"]
    assert not found.delete_before_replace


def test_a_fixed_name_must_be_free_before_the_new_resource_takes_it() -> None:
    fixed = Platform().diff(BUCKET, "b", {"name": "b", "location": "us"}, {"name": "b", "location": "eu"})
    automatic = {"name": "b-1234567", "__defaults": ["name"]}
    random = Platform().diff(BUCKET, "b", {**automatic, "location": "us"}, {**automatic, "location": "eu"})
    assert fixed.delete_before_replace
    assert not random.delete_before_replace


def test_a_fixed_kubernetes_name_must_be_free_first_and_an_automatic_one_need_not() -> None:
    fixed = Platform().diff(CONFIG_MAP, "x", kube("ConfigMap", data={"a": "b"}), kube("ConfigMap", data={}))
    metadata = {"name": "a", "namespace": "n", "annotations": {"pulumi.com/autonamed": "true"}}
    olds, news = ({**kube("ConfigMap", data=data), "metadata": metadata} for data in ({"a": "b"}, {}))
    assert fixed.delete_before_replace
    assert not Platform().diff(CONFIG_MAP, "x", olds, news).delete_before_replace


def test_paths_of_changes_go_as_deep_as_the_change() -> None:
    olds = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": [1], "__defaults": ["x"]}
    news = {"a": {"b": [{"c": 1}, {"c": 3}]}, "d": [1, 2], "__defaults": []}
    assert list(changed_paths(olds, news)) == ["a.b[1].c", "d"]


@pytest.mark.parametrize(
    ("olds", "news", "replaces"),
    [
        ({"kubeconfig": "a", "clusterIdentifier": "c"}, {"kubeconfig": "b", "clusterIdentifier": "c"}, []),
        (
            {"kubeconfig": "a", "clusterIdentifier": "c"},
            {"kubeconfig": "a", "clusterIdentifier": "d"},
            ["clusterIdentifier"],
        ),
        ({"kubeconfig": "a"}, {"kubeconfig": "b"}, ["kubeconfig"]),
    ],
)
def test_a_provider_is_replaced_for_another_cluster_and_not_for_another_kubeconfig(
    olds: dict[str, Any], news: dict[str, Any], replaces: list[str]
) -> None:
    assert Platform().kubernetes.diff_config(olds, news).replaces == replaces
