"""What the fake providers do with resources, asked without the engine."""

from pathlib import Path
from typing import Any

import pytest

from cloud.inputs import UNKNOWN
from rehearsal.fake_cloud import Rejected
from tests.rehearsal.asking import Platform

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ROUTER = "gcp:compute/router:Router"
CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
ACCOUNT = "gcp:serviceaccount/account:Account"
NAMESPACE = "kubernetes:core/v1:Namespace"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
JOB = "kubernetes:batch/v1:Job"
RAY_JOB = "kubernetes:ray.io/v1:RayJob"
RUN_JOB = "gcp:cloudrunv2/job:Job"

AUTOPILOT = {"name": "c", "location": "us-central1", "enableAutopilot": True, "deletionProtection": False}
REGIONAL = {"region": "us-central1", "ipCidrRange": "10.0.0.0/20"}
NAMESPACE_INPUTS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ray"}}
POD: dict[str, Any] = {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}


def config_map(**metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ray", **metadata},
        "data": {"a": "b"},
    }


@pytest.fixture
def platform() -> Platform:
    platform = Platform()
    platform.enable("compute", "container", "iam", "cloudresourcemanager", "run")
    return platform


@pytest.fixture
def with_cluster(platform: Platform) -> Platform:
    """A platform with a cluster, a Kubernetes provider for it, and the namespace ray in it."""
    _, cluster = platform.create(CLUSTER, "c", AUTOPILOT)
    platform.configure(
        "kubernetes",
        {"kubeconfig": f"server: https://{cluster['endpoint']}", "clusterIdentifier": cluster["selfLink"]},
    )
    platform.create(NAMESPACE, "ns", NAMESPACE_INPUTS)
    return platform


# Names


def test_a_resource_without_a_name_gets_one_with_seven_random_digits(platform: Platform) -> None:
    checked, _ = platform.check(BUCKET, "a4-ray-bucket", {"location": "us"})
    assert checked["name"] == "a4-ray-bucket-6162636"
    assert checked["__defaults"] == ["name"]


def test_an_automatic_name_is_kept_when_the_seed_changes(platform: Platform) -> None:
    first, _ = platform.check(BUCKET, "b", {"location": "us"})
    second, _ = platform.check(BUCKET, "b", {"location": "us"}, olds=first, seed=b"different")
    assert second["name"] == first["name"]


def test_an_automatic_account_id_fits_into_thirty_characters(platform: Platform) -> None:
    checked, problems = platform.check(ACCOUNT, "an-account-with-quite-a-long-name", {})
    assert len(checked["accountId"]) == 30
    assert problems == []


def test_a_given_name_stays_as_it_is(platform: Platform) -> None:
    checked, _ = platform.check(BUCKET, "b", {"location": "us", "name": "mine"})
    assert checked == {"location": "us", "name": "mine"}


def test_an_automatic_kubernetes_name_is_marked_and_kept(platform: Platform) -> None:
    first, _ = platform.check(CONFIG_MAP, "code", config_map())
    second, _ = platform.check(CONFIG_MAP, "code", config_map(), olds=first, seed=b"different")
    assert first["metadata"]["name"] == "code-61626364"
    assert first["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert second == first


# Previews


def test_a_preview_knows_the_inputs_and_that_outputs_are_to_come(platform: Platform) -> None:
    planned = platform.plan(CLUSTER, "c", AUTOPILOT)
    assert planned["name"] == "c"
    assert planned["endpoint"] == UNKNOWN
    assert planned["masterAuth"] == UNKNOWN


def test_a_preview_creates_nothing(platform: Platform) -> None:
    platform.plan(BUCKET, "b", {"name": "b", "location": "us"})
    assert not list(platform.cloud.of_type(BUCKET))


def test_a_type_without_a_record_is_rejected_with_the_file_to_add_it_to(platform: Platform) -> None:
    _, problems = platform.check("gcp:sql/databaseInstance:DatabaseInstance", "db", {})
    assert "add a record to cloud/sql.py" in problems[0]


# What must exist


def test_a_resource_needs_its_api() -> None:
    with pytest.raises(Rejected, match=r"compute\.googleapis\.com has not been used"):
        Platform().create(NETWORK, "n", {"name": "n"})


@pytest.mark.parametrize(
    ("type_token", "inputs"),
    [
        (SUBNETWORK, {"name": "s", "network": "missing", **REGIONAL}),
        (ROUTER, {"name": "r", "network": "missing", "region": "us-central1"}),
        ("gcp:compute/routerNat:RouterNat", {"name": "n", "router": "missing", "region": "us-central1"}),
        (NODE_POOL, {"name": "p", "cluster": "missing"}),
        (CLUSTER, {**AUTOPILOT, "network": "missing"}),
        (
            CLUSTER,
            {**AUTOPILOT, "clusterAutoscaling": {"autoProvisioningDefaults": {"serviceAccount": "missing"}}},
        ),
        (BUCKET_MEMBER, {"bucket": "missing", "role": "roles/viewer", "member": "allUsers"}),
    ],
)
def test_what_a_resource_refers_to_must_exist(
    platform: Platform, type_token: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(Rejected, match="'missing' was not found"):
        platform.create(type_token, "x", inputs)


def test_references_by_id_link_and_name_all_count(platform: Platform) -> None:
    network_id, network = platform.create(NETWORK, "n", {"name": "n"})
    for number, reference in enumerate((network_id, network["selfLink"], "n")):
        platform.create(SUBNETWORK, "s", {"name": f"s{number}", "network": reference, **REGIONAL})


def test_a_service_account_must_exist_before_it_gets_a_role(platform: Platform) -> None:
    member = {"project": "p", "role": "roles/x", "member": "serviceAccount:nobody@p.iam.gserviceaccount.com"}
    with pytest.raises(Rejected, match=r"service account nobody@p\.iam\.gserviceaccount\.com does not exist"):
        platform.create("gcp:projects/iAMMember:IAMMember", "m", member)


def test_google_s_own_service_agents_exist_without_being_created(platform: Platform) -> None:
    for email in (
        "service-1@container-engine-robot.iam.gserviceaccount.com",
        "1-compute@developer.gserviceaccount.com",
    ):
        member = {"project": "p", "role": "roles/x", "member": f"serviceAccount:{email}"}
        platform.create("gcp:projects/iAMMember:IAMMember", "m", member)


def test_the_identity_pool_comes_with_the_first_cluster(platform: Platform) -> None:
    platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    pool = "projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/subject/ns/ray/sa/x"
    member = {
        "bucket": "b",
        "role": "roles/storage.objectUser",
        "member": f"principal://iam.googleapis.com/{pool}",
    }
    with pytest.raises(Rejected, match="identity pool does not exist"):
        platform.create(BUCKET_MEMBER, "m", member)
    platform.create(CLUSTER, "c", AUTOPILOT)
    platform.create(BUCKET_MEMBER, "m", member)


def test_a_cluster_s_ranges_are_those_of_its_subnetwork(platform: Platform) -> None:
    platform.create(NETWORK, "n", {"name": "n"})
    ranges = {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/16"}]}
    platform.create(SUBNETWORK, "s", {"name": "s", "network": "n", **REGIONAL, **ranges})
    cluster = {**AUTOPILOT, "network": "n", "subnetwork": "s"}
    with pytest.raises(Rejected, match="'pdos' not found"):
        platform.create(
            CLUSTER, "c", {**cluster, "ipAllocationPolicy": {"clusterSecondaryRangeName": "pdos"}}
        )
    platform.create(CLUSTER, "c", {**cluster, "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"}})


def test_creating_what_exists_is_refused(platform: Platform, with_cluster: Platform) -> None:
    with_cluster.create(CONFIG_MAP, "code", config_map(name="code"))
    with pytest.raises(Rejected, match="already exists"):
        with_cluster.create(CONFIG_MAP, "code", config_map(name="code"))


# Kubernetes needs its cluster


def test_objects_need_a_cluster_that_answers(platform: Platform) -> None:
    platform.configure("kubernetes", {"kubeconfig": "server: https://34.1.2.3", "clusterIdentifier": "gone"})
    with pytest.raises(Rejected, match="cluster is unreachable"):
        platform.create(NAMESPACE, "ns", NAMESPACE_INPUTS)


def test_a_kubeconfig_for_another_address_does_not_reach_the_cluster(platform: Platform) -> None:
    _, cluster = platform.create(CLUSTER, "c", AUTOPILOT)
    platform.configure(
        "kubernetes", {"kubeconfig": "server: elsewhere", "clusterIdentifier": cluster["selfLink"]}
    )
    with pytest.raises(Rejected, match="cluster is unreachable"):
        platform.create(NAMESPACE, "ns", NAMESPACE_INPUTS)


def test_an_object_needs_its_namespace(with_cluster: Platform) -> None:
    with pytest.raises(Rejected, match='namespaces "raz" not found'):
        with_cluster.create(CONFIG_MAP, "code", config_map(name="code", namespace="raz"))


def test_deleting_a_cluster_deletes_what_is_in_it(with_cluster: Platform) -> None:
    with_cluster.create(CONFIG_MAP, "code", config_map(name="code"))
    with_cluster.delete(CLUSTER, "c", "projects/p/locations/us-central1/clusters/c")
    assert {item.type for item in with_cluster.cloud.items} == {"gcp:projects/service:Service"}


def test_a_restricted_namespace_lets_no_unrestricted_pod_in(with_cluster: Platform) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    home = {**NAMESPACE_INPUTS, "metadata": {"name": "strict", "labels": labels}}
    with_cluster.create(NAMESPACE, "strict", home)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "strict"}}
    with pytest.raises(
        Rejected, match="violates PodSecurity restricted: container main: allowPrivilegeEscalation"
    ):
        with_cluster.create(JOB, "j", {**job, "spec": {"template": {"spec": POD}}})
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    safe = {**POD, "containers": [{**POD["containers"][0], "securityContext": context}]}
    with_cluster.create(JOB, "j", {**job, "spec": {"template": {"spec": safe}}})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath"),
        ({"containers": [{"name": "main", "securityContext": {"privileged": True}}]}, "is privileged"),
    ],
)
def test_a_baseline_namespace_lets_no_pod_out_of_its_box(
    with_cluster: Platform, spec: dict[str, Any], message: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    with_cluster.create(NAMESPACE, "n", {**NAMESPACE_INPUTS, "metadata": {"name": "n", "labels": labels}})
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}}
    with_cluster.create(
        JOB, "ok", {**job, "metadata": {"name": "ok", "namespace": "n"}, "spec": {"template": {"spec": POD}}}
    )
    with pytest.raises(Rejected, match=message):
        with_cluster.create(JOB, "j", {**job, "spec": {"template": {"spec": {**POD, **spec}}}})


# Jobs


def ray_job(wait: str | None = None) -> dict[str, Any]:
    annotations = {"annotations": {"pulumi.com/waitFor": wait}} if wait else {}
    metadata = {"name": "train", "namespace": "ray", **annotations}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": {"entrypoint": "x"}}


def test_a_ray_job_ends_complete_and_says_so(with_cluster: Platform) -> None:
    _, outputs = with_cluster.create(
        RAY_JOB, "train", ray_job("jsonpath={.status.jobDeploymentStatus}=Complete")
    )
    assert outputs["status"] == {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}


def test_waiting_for_the_success_of_a_job_that_fails_times_out(with_cluster: Platform) -> None:
    with_cluster.cloud.outcome = "Failed"
    with pytest.raises(Rejected, match="timed out waiting for RayJob ray/train"):
        with_cluster.create(RAY_JOB, "train", ray_job("jsonpath={.status.jobDeploymentStatus}=Complete"))


def test_waiting_for_either_end_of_a_job_sees_its_failure(with_cluster: Platform) -> None:
    with_cluster.cloud.outcome = "Failed"
    either = "jsonpath={.status[?@ == 'Complete' || @ == 'Failed']}"
    _, outputs = with_cluster.create(RAY_JOB, "train", ray_job(either))
    assert outputs["status"]["jobDeploymentStatus"] == "Failed"


def run_job(token: str) -> dict[str, Any]:
    return {
        "name": "tune",
        "location": "us-central1",
        "runExecutionToken": token,
        "template": {"template": {}},
    }


def test_a_cloud_run_job_writes_into_the_bucket_when_it_runs(platform: Platform) -> None:
    bucket_id, _ = platform.create(BUCKET, "b", {"name": "b", "location": "us-central1"})
    platform.create(RUN_JOB, "tune", run_job("one"))
    with pytest.raises(Rejected, match="containing objects"):
        platform.delete(BUCKET, "b", bucket_id)


def test_a_cloud_run_job_that_fails_is_refused(platform: Platform) -> None:
    platform.cloud.outcome = "Failed"
    with pytest.raises(Rejected, match="execution tune-one has failed"):
        platform.create(RUN_JOB, "tune", run_job("one"))


def test_a_changed_cloud_run_job_does_not_run_by_the_same_token(platform: Platform) -> None:
    job_id, _ = platform.create(RUN_JOB, "tune", run_job("one"))
    with pytest.raises(Rejected, match="'tune-one' already exists"):
        platform.update(RUN_JOB, "tune", job_id, run_job("one"))
    platform.update(RUN_JOB, "tune", job_id, run_job("two"))


# Deletion


def test_a_network_in_use_cannot_be_deleted(platform: Platform) -> None:
    network_id, _ = platform.create(NETWORK, "n", {"name": "n"})
    subnet_id, _ = platform.create(SUBNETWORK, "s", {"name": "s", "network": network_id, **REGIONAL})
    with pytest.raises(Rejected, match="already being used"):
        platform.delete(NETWORK, "n", network_id)
    platform.delete(SUBNETWORK, "s", subnet_id)
    platform.delete(NETWORK, "n", network_id)


def test_a_subnetwork_with_a_cluster_in_it_cannot_be_deleted(platform: Platform) -> None:
    platform.create(NETWORK, "n", {"name": "n"})
    subnet_id, _ = platform.create(SUBNETWORK, "s", {"name": "s", "network": "n", **REGIONAL})
    platform.create(CLUSTER, "c", {**AUTOPILOT, "network": "n", "subnetwork": subnet_id})
    with pytest.raises(Rejected, match="already being used"):
        platform.delete(SUBNETWORK, "s", subnet_id)


def test_deletion_protection_is_on_until_switched_off(platform: Platform) -> None:
    unstated = {key: value for key, value in AUTOPILOT.items() if key != "deletionProtection"}
    cluster_id, _ = platform.create(CLUSTER, "c", unstated)
    with pytest.raises(Rejected, match="deletion_protection"):
        platform.delete(CLUSTER, "c", cluster_id)


def test_a_deletion_policy_prevents_or_leaves_behind(platform: Platform) -> None:
    kept_id, _ = platform.create(BUCKET, "b", {"name": "kept", "location": "us", "deletionPolicy": "PREVENT"})
    left_id, _ = platform.create(BUCKET, "b", {"name": "left", "location": "us", "deletionPolicy": "ABANDON"})
    with pytest.raises(Rejected, match="PREVENT"):
        platform.delete(BUCKET, "b", kept_id)
    platform.delete(BUCKET, "b", left_id)
    assert platform.exists(BUCKET, "b", left_id)


@pytest.mark.parametrize("force", [True, False])
def test_a_bucket_that_a_job_wrote_to_goes_only_by_force(with_cluster: Platform, force: bool) -> None:
    bucket_id, _ = with_cluster.create(BUCKET, "b", {"name": "b", "location": "us", "forceDestroy": force})
    job_id, _ = with_cluster.create(RAY_JOB, "train", ray_job())
    with_cluster.delete(RAY_JOB, "train", job_id)
    if force:
        with_cluster.delete(BUCKET, "b", bucket_id)
        assert not with_cluster.exists(BUCKET, "b", bucket_id)
    else:
        with pytest.raises(Rejected, match="containing objects without force_destroy"):
            with_cluster.delete(BUCKET, "b", bucket_id)


def test_an_empty_bucket_goes_without_force(platform: Platform) -> None:
    bucket_id, _ = platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    platform.delete(BUCKET, "b", bucket_id)


def test_what_is_gone_reads_as_gone_and_can_be_deleted_again(platform: Platform) -> None:
    bucket_id, _ = platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    assert platform.exists(BUCKET, "b", bucket_id)
    platform.delete(BUCKET, "b", bucket_id)
    platform.delete(BUCKET, "b", bucket_id)
    assert not platform.exists(BUCKET, "b", bucket_id)


def test_a_creation_that_is_to_fail_fails_once(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.faults.add(["b"])
    with pytest.raises(Rejected, match="lets the creation of b fail"):
        platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    platform.create(BUCKET, "b", {"name": "b", "location": "us"})
