"""Node pools, Helm releases and Kueue in the fake cloud."""

from typing import Any

import pytest

from rehearsal.fake_cloud import Rejected
from tests.rehearsal.asking import Platform
from tests.rehearsal.right import BUCKET_MEMBER, CLUSTER, LOCAL_QUEUE, NAMESPACE, NODE_POOL, RELEASE, RIGHT

STANDARD: dict[str, Any] = {
    "name": "c",
    "location": "us-central1",
    "initialNodeCount": 1,
    "removeDefaultNodePool": True,
    "deletionProtection": False,
}
AUTOPILOT = {"name": "c", "location": "us-central1", "enableAutopilot": True, "deletionProtection": False}
POOL: dict[str, Any] = {"name": "pool", "cluster": "c", "location": "us-central1", "nodeCount": 1}
TAINT = {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]}
HOME: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}


@pytest.fixture
def platform() -> Platform:
    found = Platform()
    found.enable("container")
    return found


def make_cluster(platform: Platform, inputs: dict[str, Any]) -> None:
    """A cluster with the namespaces ray and kueue-system, and a provider for it."""
    _, cluster = platform.create(CLUSTER, "c", inputs)
    platform.configure(
        "kubernetes",
        {"kubeconfig": f"server: https://{cluster['endpoint']}", "clusterIdentifier": cluster["selfLink"]},
    )
    platform.create(NAMESPACE, "home", HOME)
    platform.create(NAMESPACE, "ns", {**HOME, "metadata": {"name": "ray"}})


@pytest.fixture
def with_kueue(platform: Platform) -> Platform:
    make_cluster(platform, AUTOPILOT)
    platform.create(RELEASE, "kueue", RIGHT[RELEASE])
    return platform


def test_an_autopilot_cluster_takes_no_node_pool(platform: Platform) -> None:
    make_cluster(platform, AUTOPILOT)
    with pytest.raises(Rejected, match="do not support mutating node pools"):
        platform.create(NODE_POOL, "pool", POOL)


def test_nodes_that_stream_images_need_the_api_for_it(platform: Platform) -> None:
    make_cluster(platform, STANDARD)
    streaming = {**POOL, "nodeConfig": {"gcfsConfig": {"enabled": True}}}
    with pytest.raises(Rejected, match=r"containerfilesystem\.googleapis\.com has not been used"):
        platform.create(NODE_POOL, "pool", streaming)
    platform.enable("containerfilesystem")
    platform.create(NODE_POOL, "pool", streaming)


def test_deleting_a_cluster_deletes_its_nodes(platform: Platform) -> None:
    make_cluster(platform, STANDARD)
    platform.create(NODE_POOL, "pool", POOL)
    platform.delete(CLUSTER, "c", "projects/p/locations/us-central1/clusters/c")
    assert not list(platform.cloud.of_type(NODE_POOL))


def test_a_standard_cluster_has_identities_for_pods_only_when_asked(platform: Platform) -> None:
    pool = "projects/123456789012/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/n/sa/s"
    platform.create("gcp:storage/bucket:Bucket", "b", {"name": "b", "location": "US", "project": "p"})
    member = {"bucket": "b", "role": "roles/storage.objectUser"}
    member["member"] = f"principal://iam.googleapis.com/{pool}"
    platform.create(CLUSTER, "c", STANDARD)
    with pytest.raises(Rejected, match="identity pool does not exist"):
        platform.create(BUCKET_MEMBER, "m", member)
    identities = {"workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"}}
    platform.create(CLUSTER, "d", {**STANDARD, "name": "d", **identities})
    platform.create(BUCKET_MEMBER, "m", member)


def test_a_release_waits_in_vain_for_nodes_that_are_not_there_or_not_open(platform: Platform) -> None:
    make_cluster(platform, STANDARD)
    with pytest.raises(Rejected, match="no node is open to them"):
        platform.create(RELEASE, "kueue", RIGHT[RELEASE])
    platform.create(NODE_POOL, "gpus", {**POOL, "name": "gpus", "nodeConfig": TAINT})
    with pytest.raises(Rejected, match="no node is open to them"):
        platform.create(RELEASE, "kueue", RIGHT[RELEASE])
    platform.create(NODE_POOL, "system", POOL)
    platform.create(RELEASE, "kueue", RIGHT[RELEASE])


def test_a_release_needs_its_namespace(platform: Platform) -> None:
    make_cluster(platform, AUTOPILOT)
    with pytest.raises(Rejected, match='namespaces "elsewhere" not found'):
        platform.create(RELEASE, "kueue", {**RIGHT[RELEASE], "namespace": "elsewhere"})


def test_a_release_in_another_namespace_is_another_release(platform: Platform) -> None:
    moved = {**RIGHT[RELEASE], "namespace": "elsewhere"}
    upgraded = {**RIGHT[RELEASE], "version": "0.20.0"}
    assert list(platform.diff(RELEASE, "kueue", RIGHT[RELEASE], moved).replaces) == ["namespace"]
    assert not list(platform.diff(RELEASE, "kueue", RIGHT[RELEASE], upgraded).replaces)


def test_kueues_kinds_are_unknown_before_kueue(platform: Platform) -> None:
    make_cluster(platform, AUTOPILOT)
    with pytest.raises(
        Rejected, match=r'no matches for kind "LocalQueue" in version "kueue\.x-k8s\.io/v1beta2"'
    ):
        platform.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])


def test_a_webhook_that_is_late_refuses_queues_and_queued_workloads_alone(with_kueue: Platform) -> None:
    code: dict[str, Any] = {**HOME, "kind": "ConfigMap", "metadata": {"name": "code", "namespace": "ray"}}
    with_kueue.cloud.silent_webhook = 1
    with_kueue.create("kubernetes:core/v1:ConfigMap", "code", code)
    with pytest.raises(Rejected, match="failed calling webhook"):
        with_kueue.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])
    with_kueue.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])
