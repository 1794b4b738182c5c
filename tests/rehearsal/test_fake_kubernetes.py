"""What the fake Kubernetes provider does with objects, Helm releases and Kueue, asked without the engine."""

from typing import Any

import pytest

from rehearsal.fakes.cloud import Rejected
from tests.rehearsal.asking import AUTOPILOT, STANDARD, Platform
from tests.rehearsal.right import (
    BUCKET,
    CLUSTER,
    CONFIG_MAP,
    JOB,
    KUEUE_RELEASE,
    LOCAL_QUEUE,
    NODE_POOL,
    RAY_JOB,
    RELEASE,
    RIGHT,
    SERVICE,
)

POD: dict[str, Any] = {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}
POOL: dict[str, Any] = {"name": "pool", "cluster": "c", "location": "us-central1", "nodeCount": 1}
TAINT = {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def platform() -> Platform:
    return Platform("container")


@pytest.fixture
def with_cluster(platform: Platform) -> Platform:
    """A platform with a cluster and namespaces in it."""
    platform.make_cluster(AUTOPILOT, "llm", "kueue-system")
    return platform


def kube(version: str, kind: str, name: str, namespace: str = "llm", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **fields,
    }


CODE = kube("v1", "ConfigMap", "code", data={"a": "b"})


def test_an_automatic_name_is_marked_and_kept(platform: Platform) -> None:
    nameless = {**CODE, "metadata": {"namespace": "llm"}}
    first, _ = platform.check(CONFIG_MAP, "code", nameless)
    second, _ = platform.check(CONFIG_MAP, "code", nameless, olds=first, seed=b"different")
    assert first["metadata"]["name"] == "code-61626364"
    assert first["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert second == first


def test_creating_what_exists_is_rejected(with_cluster: Platform) -> None:
    with_cluster.create(CONFIG_MAP, "code", CODE)
    with pytest.raises(Rejected, match=r"Error 409: .* already exists"):
        with_cluster.create(CONFIG_MAP, "code", CODE)


@pytest.mark.parametrize(("address", "identifier"), [("https://34.1.2.3", ""), ("elsewhere", None)])
def test_objects_need_a_cluster_that_answers_at_its_address(
    platform: Platform, address: str, identifier: str | None
) -> None:
    _, cluster = platform.create(CLUSTER, "c", AUTOPILOT)
    link = cluster["selfLink"] if identifier is None else identifier
    platform.configure(kubeconfig=f"server: {address}", clusterIdentifier=link)
    with pytest.raises(Rejected, match="cluster is unreachable"):
        platform.make_namespace("llm")


DNS_ONLY = {
    **AUTOPILOT,
    "controlPlaneEndpointsConfig": {
        "dnsEndpointConfig": {"allowExternalTraffic": True},
        "ipEndpointsConfig": {"enabled": False},
    },
}


def dns_name(cluster: dict[str, Any]) -> str:
    return cluster["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]


def test_a_cluster_without_ip_endpoints_answers_at_its_name_alone(platform: Platform) -> None:
    _, cluster = platform.create(CLUSTER, "c", DNS_ONLY)
    platform.configure(kubeconfig=cluster["endpoint"], clusterIdentifier=cluster["selfLink"])
    with pytest.raises(Rejected, match="cluster is unreachable"):
        platform.make_namespace("llm")
    platform.configure(kubeconfig=dns_name(cluster), clusterIdentifier=cluster["selfLink"])
    platform.make_namespace("llm")


def test_a_client_with_the_cluster_s_authority_refuses_the_certificate_of_the_name(
    platform: Platform,
) -> None:
    _, cluster = platform.create(CLUSTER, "c", DNS_ONLY)
    kubeconfig = f"server: {dns_name(cluster)}, certificate-authority-data: x"
    platform.configure(kubeconfig=kubeconfig, clusterIdentifier=cluster["selfLink"])
    with pytest.raises(Rejected, match="x509: certificate signed by unknown authority"):
        platform.make_namespace("llm")


def test_a_name_that_is_not_open_answers_nobody(platform: Platform) -> None:
    _, cluster = platform.create(CLUSTER, "c", AUTOPILOT)
    platform.configure(kubeconfig=dns_name(cluster), clusterIdentifier=cluster["selfLink"])
    with pytest.raises(Rejected, match="cluster is unreachable"):
        platform.make_namespace("llm")


@pytest.mark.parametrize(
    ("type_token", "inputs"),
    [
        (CONFIG_MAP, kube("v1", "ConfigMap", "code", "elsewhere")),
        (RELEASE, {**KUEUE_RELEASE, "namespace": "elsewhere"}),
    ],
)
def test_objects_and_releases_need_their_namespace(
    with_cluster: Platform, type_token: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(Rejected, match='namespaces "elsewhere" not found'):
        with_cluster.create(type_token, "x", inputs)


def test_deleting_a_cluster_deletes_its_nodes_and_what_is_in_it(platform: Platform) -> None:
    platform.make_cluster(STANDARD, "llm")
    platform.create(NODE_POOL, "pool", POOL)
    platform.create(CONFIG_MAP, "code", CODE)
    platform.delete(CLUSTER, "c", "projects/p/locations/us-central1/clusters/c")
    assert {item.type for item in platform.cloud.items} == {SERVICE}


@pytest.mark.parametrize(
    ("level", "spec", "message"),
    [
        ("restricted", {}, "restricted: container main: allowPrivilegeEscalation"),
        ("baseline", {"hostNetwork": True}, "hostNetwork"),
        ("baseline", {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath"),
        (
            "baseline",
            {"containers": [{"name": "main", "securityContext": {"privileged": True}}]},
            "is privileged",
        ),
    ],
)
def test_a_namespace_lets_in_the_pods_of_its_level_alone(
    with_cluster: Platform, level: str, spec: dict[str, Any], message: str
) -> None:
    with_cluster.make_namespace("strict", **{"pod-security.kubernetes.io/enforce": level})

    def create(name: str, pod: dict[str, Any]) -> None:
        job = kube("batch/v1", "Job", name, "strict", spec={"template": {"spec": pod}})
        with_cluster.create(JOB, name, job)

    with pytest.raises(Rejected, match=f"violates PodSecurity .*{message}"):
        create("wrong", {**POD, **spec})
    context = {"securityContext": RESTRICTED_CONTAINER} if level == "restricted" else {}
    create("right", {**POD, "containers": [{**POD["containers"][0], **context}]})


# Jobs


def ray_job(wait: str | None = None) -> dict[str, Any]:
    job = kube("ray.io/v1", "RayJob", "train", spec={"entrypoint": "x"})
    job["metadata"]["annotations"] = {"pulumi.com/waitFor": wait} if wait else {}
    return job


def test_a_ray_job_ends_complete_and_says_so(with_cluster: Platform) -> None:
    job = ray_job("jsonpath={.status.jobDeploymentStatus}=Complete")
    _, outputs = with_cluster.create(RAY_JOB, "train", job)
    assert outputs["status"] == {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def test_waiting_for_the_success_of_a_job_that_fails_times_out(with_cluster: Platform) -> None:
    with_cluster.cloud.outcome = "Failed"
    with pytest.raises(Rejected, match="timed out waiting for RayJob train"):
        with_cluster.create(RAY_JOB, "train", ray_job("jsonpath={.status.jobDeploymentStatus}=Complete"))


def test_waiting_for_either_end_of_a_job_sees_its_failure(with_cluster: Platform) -> None:
    with_cluster.cloud.outcome = "Failed"
    either = "jsonpath={.status[?@ == 'Complete' || @ == 'Failed']}"
    _, outputs = with_cluster.create(RAY_JOB, "train", ray_job(either))
    assert outputs["status"]["jobDeploymentStatus"] == "Failed"


def test_a_bucket_that_a_job_wrote_to_goes_only_by_force(with_cluster: Platform) -> None:
    places = {"location": "us", "forceDestroy": False}
    kept, _ = with_cluster.create(BUCKET, "b", {"name": "kept", **places})
    gone, _ = with_cluster.create(BUCKET, "b", {"name": "gone", **places, "forceDestroy": True})
    job_id, _ = with_cluster.create(RAY_JOB, "train", ray_job())
    with_cluster.delete(RAY_JOB, "train", job_id)
    with pytest.raises(Rejected, match="containing objects without force_destroy"):
        with_cluster.delete(BUCKET, "b", kept)
    with_cluster.delete(BUCKET, "b", gone)
    assert not with_cluster.exists(BUCKET, "b", gone)


# Releases and Kueue


def test_a_release_waits_in_vain_for_nodes_that_are_not_there_or_not_open(platform: Platform) -> None:
    platform.make_cluster(STANDARD, "kueue-system")
    with pytest.raises(Rejected, match="no node is open to them"):
        platform.create(RELEASE, "kueue", RIGHT[RELEASE])
    platform.create(NODE_POOL, "gpus", {**POOL, "name": "gpus", "nodeConfig": TAINT})
    with pytest.raises(Rejected, match="no node is open to them"):
        platform.create(RELEASE, "kueue", RIGHT[RELEASE])
    platform.create(NODE_POOL, "system", POOL)
    platform.create(RELEASE, "kueue", RIGHT[RELEASE])


def test_kueues_kinds_are_unknown_before_kueue(with_cluster: Platform) -> None:
    with pytest.raises(
        Rejected, match=r'no matches for kind "LocalQueue" in version "kueue\.x-k8s\.io/v1beta2"'
    ):
        with_cluster.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])


def test_a_webhook_that_is_late_rejects_queues_and_queued_workloads_alone(with_cluster: Platform) -> None:
    with_cluster.create(RELEASE, "kueue", RIGHT[RELEASE])
    with_cluster.cloud.silent_webhook = 1
    with_cluster.create(CONFIG_MAP, "code", CODE)
    with pytest.raises(Rejected, match="failed calling webhook"):
        with_cluster.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])
    with_cluster.create(LOCAL_QUEUE, "queue", RIGHT[LOCAL_QUEUE])


def test_the_platform_refuses_to_change_what_pulumi_takes_for_an_update(with_cluster: Platform) -> None:
    def job(mode: str) -> dict[str, Any]:
        return kube("batch/v1", "Job", "once", spec={"completionMode": mode, "template": {"spec": POD}})

    diff = with_cluster.diff(JOB, "once", job("Indexed"), job("NonIndexed"))
    assert diff.updates and not diff.replaces
    item_id, _ = with_cluster.create(JOB, "once", job("Indexed"))
    with pytest.raises(Rejected, match=r"spec\.completionMode: Invalid value: field is immutable"):
        with_cluster.update(JOB, "once", item_id, job("NonIndexed"))
