"""What a first plan as a whole reveals."""

from typing import Any

from cloud.machines import TOPOLOGY_LABEL, TPU_LABEL, TPU_RESOURCE
from engine.plan import Plan, Planned
from rehearsal.plan_checks import problems
from rehearsal.rules import pods
from tests.rehearsal.right import SLICE_POOL

SERVICE = "gcp:projects/service:Service"
NETWORK = "gcp:compute/network:Network"
NAMESPACE = "kubernetes:core/v1:Namespace"
POD = "kubernetes:core/v1:Pod"
SECRET = "kubernetes:core/v1:Secret"

COMPUTE = {"service": "compute.googleapis.com"}


def planned(type_token: str, name: str, inputs: dict[str, Any], *waits_for: str) -> Planned:
    return Planned(
        type=type_token, name=name, urn=name, parent="", op="create", inputs=inputs, dependencies=waits_for
    )


def plan(*resources: Planned) -> Plan:
    return Plan(resources=resources, changes={})


def kube(kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


RAY = planned(NAMESPACE, "ns", kube("Namespace", "ray"))
USES_SECRET = {
    "containers": [
        {"name": "main", "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}]}
    ]
}


def test_a_resource_waits_for_its_api_directly_or_through_others() -> None:
    api = planned(SERVICE, "compute", COMPUTE)
    network = planned(NETWORK, "net", {"name": "net"}, "compute")
    subnet = planned(
        "gcp:compute/subnetwork:Subnetwork", "sub", {"ipCidrRange": "10.0.0.0/20", "network": "n"}, "net"
    )
    assert problems(plan(api, network, subnet)) == []


def test_a_resource_that_does_not_wait_for_its_api_is_found() -> None:
    found = problems(plan(planned(SERVICE, "compute", COMPUTE), planned(NETWORK, "net", {"name": "net"})))
    assert found == ["net: is not made to wait for compute.googleapis.com: add depends_on compute"]


def test_an_api_that_nothing_enables_is_found() -> None:
    found = problems(plan(planned(NETWORK, "net", {"name": "net"})))
    assert found == ["net: nothing in the plan enables compute.googleapis.com"]


def test_an_object_waits_for_its_namespace() -> None:
    secret = kube("Secret", "token", "ray", stringData={"t": "x"})
    assert problems(plan(RAY, planned(SECRET, "token", secret, "ns"))) == []
    (found,) = problems(plan(RAY, planned(SECRET, "token", secret)))
    assert "not made to wait for Namespace ray" in found


def test_a_namespace_that_nothing_makes_is_found() -> None:
    (found,) = problems(plan(planned(SECRET, "token", kube("Secret", "token", "raz"))))
    assert "names Namespace raz, which nothing in the plan makes" in found


def test_objects_are_checked_although_the_engine_does_not_ask_the_provider_yet() -> None:
    (found,) = problems(plan(RAY, planned(SECRET, "token", kube("Secret", "token", "ray", dta={}), "ns")))
    assert "'dta' was unexpected" in found


def test_secret_values_that_a_plan_does_not_show_are_not_held_against_it() -> None:
    hidden = kube("Secret", "token", "ray", stringData="[secret]")
    assert problems(plan(RAY, planned(SECRET, "token", hidden, "ns"))) == []


def test_what_a_pod_names_must_be_made_by_the_plan() -> None:
    pod = planned(POD, "pod", kube("Pod", "pod", "ray", spec=USES_SECRET), "ns")
    (found,) = problems(plan(RAY, pod))
    assert "names Secret token, which nothing in the plan makes in namespace ray" in found
    token = planned(SECRET, "token", kube("Secret", "token", "ray"), "ns")
    assert problems(plan(RAY, pod, token)) == []


def test_a_pod_s_service_account_must_be_made_by_the_plan() -> None:
    spec = {"containers": [{"name": "main"}], "serviceAccountName": "trainer"}
    (found,) = problems(plan(RAY, planned(POD, "pod", kube("Pod", "pod", "ray", spec=spec), "ns")))
    assert "names ServiceAccount trainer" in found


def test_pods_that_the_namespace_would_not_let_in_are_found() -> None:
    home = kube("Namespace", "ray")
    home["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    pod = planned(POD, "pod", kube("Pod", "pod", "ray", spec={"containers": [{"name": "main"}]}), "ns")
    found = problems(plan(planned(NAMESPACE, "ns", home), pod))
    assert any("violates PodSecurity restricted: container main: runAsNonRoot" in line for line in found)


def test_a_restricted_ray_job_needs_a_submitter_of_its_own() -> None:
    home = kube("Namespace", "ray")
    home["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    spec = {"entrypoint": "x", "clusterSelector": {"a": "b"}}
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "j", "namespace": "ray"},
        "spec": spec,
    }
    (found,) = problems(
        plan(planned(NAMESPACE, "ns", home), planned("kubernetes:ray.io/v1:RayJob", "j", job, "ns"))
    )
    assert "the default submitter pod is not restricted" in found


QUEUED = {"kueue.x-k8s.io/queue-name": "llm", "kueue.x-k8s.io/priority-class": "low"}
RELEASE = planned(
    "kubernetes:helm.sh/v3:Release",
    "kueue",
    {"name": "kueue", "namespace": "ray", "chart": "oci://r/kueue", "version": "1"},
    "ns",
)


def of_kueue(kind: str, name: str, *waits_for: str, **fields: Any) -> Planned:
    version = "kueue.x-k8s.io/v1beta2"
    inputs = {**kube(kind, name, "ray" if kind == "LocalQueue" else None, **fields), "apiVersion": version}
    return planned(f"kubernetes:{version}:{kind}", f"{kind}-{name}", inputs, *waits_for)


def job(*waits_for: str) -> Planned:
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    inputs: dict[str, Any] = {**kube("Job", "job", "ray", spec={"template": pods}), "apiVersion": "batch/v1"}
    inputs["metadata"]["labels"] = QUEUED
    return planned("kubernetes:batch/v1:Job", "job", inputs, "ns", *waits_for)


LOW = of_kueue("WorkloadPriorityClass", "low", "kueue", value=1)
CLUSTER_QUEUE = of_kueue("ClusterQueue", "llm", "kueue", spec={})
LOCAL_QUEUE = of_kueue("LocalQueue", "llm", "ns", "ClusterQueue-llm", spec={"clusterQueue": "llm"})


def test_a_queued_job_whose_queue_and_priority_are_there_before_it_passes() -> None:
    queued = job("LocalQueue-llm", "WorkloadPriorityClass-low")
    assert problems(plan(RAY, RELEASE, LOW, CLUSTER_QUEUE, LOCAL_QUEUE, queued)) == []


def test_a_job_in_a_queue_or_of_a_priority_that_nothing_makes_would_wait_without_a_word() -> None:
    found = problems(plan(RAY, RELEASE, job()))
    assert found == [
        "job: metadata.labels: names LocalQueue llm, which nothing in the plan makes in namespace ray",
        "job: metadata.labels: names WorkloadPriorityClass low, which nothing in the plan makes",
    ]


def test_a_job_that_is_not_made_to_wait_for_its_queue_is_found() -> None:
    found = problems(plan(RAY, RELEASE, LOW, CLUSTER_QUEUE, LOCAL_QUEUE, job("WorkloadPriorityClass-low")))
    assert found == ["job: metadata.labels: is not made to wait for LocalQueue llm: add depends_on"]


def test_a_queue_waits_for_what_it_draws_on() -> None:
    early = of_kueue("LocalQueue", "llm", "ns", "kueue", spec={"clusterQueue": "llm"})
    (found,) = problems(plan(RAY, RELEASE, CLUSTER_QUEUE, early))
    assert "spec.clusterQueue: is not made to wait for ClusterQueue llm" in found


def test_an_object_of_kueue_waits_for_the_release_that_defines_it() -> None:
    (found,) = problems(plan(RAY, RELEASE, of_kueue("ResourceFlavor", "l4", spec={})))
    assert "is not made to wait for the release that defines its kind" in found


def test_network_policies_that_nothing_enforces_are_found() -> None:
    api = planned(SERVICE, "container", {"service": "container.googleapis.com"})
    policy = kube("NetworkPolicy", "closed", "ray", spec={"podSelector": {}})
    closed = planned("kubernetes:networking.k8s.io/v1:NetworkPolicy", "closed", policy, "ns")
    closed.inputs["apiVersion"] = "networking.k8s.io/v1"

    def with_cluster(**inputs: Any) -> list[str]:
        cluster = planned("gcp:container/cluster:Cluster", "c", {"name": "c", **inputs}, "container")
        return problems(plan(api, cluster, RAY, closed))

    assert with_cluster(enableAutopilot=True) == []
    assert with_cluster(initialNodeCount=1, datapathProvider="ADVANCED_DATAPATH") == []
    (found,) = with_cluster(initialNodeCount=1)
    assert "nothing enforces the plan's NetworkPolicies" in found


# Nodes


STANDARD_CLUSTER: dict[str, Any] = {
    "name": "c",
    "location": "us-east5-b",
    "initialNodeCount": 1,
    "datapathProvider": "ADVANCED_DATAPATH",
}
CONTAINER = planned(SERVICE, "container", {"service": "container.googleapis.com"})


def standard(**addons: Any) -> Planned:
    return planned(
        "gcp:container/cluster:Cluster", "c", {**STANDARD_CLUSTER, "addonsConfig": addons}, "container"
    )


def slice_pool(topology: str, hosts: int) -> Planned:
    inputs = {
        **SLICE_POOL,
        "placementPolicy": {"type": "COMPACT", "tpuTopology": topology},
        "nodeCount": hosts,
    }
    return planned("gcp:container/nodePool:NodePool", "slice", inputs, "container")


def trainer(**spec: Any) -> Planned:
    return planned(POD, "trainer", kube("Pod", "trainer", "ray", spec=spec), "ns")


ON_4X4: dict[str, Any] = {
    "nodeSelector": {TPU_LABEL: "tpu-v6e-slice", TOPOLOGY_LABEL: "4x4"},
    "containers": [
        {
            "name": "main",
            "resources": {"requests": {TPU_RESOURCE: "4"}, "limits": {TPU_RESOURCE: "4"}},
        }
    ],
}


def test_pods_that_select_a_slice_of_the_plan_pass() -> None:
    assert problems(plan(CONTAINER, standard(), slice_pool("4x4", 4), RAY, trainer(**ON_4X4))) == []


def test_pods_that_select_a_slice_that_nothing_makes_are_found() -> None:
    (found,) = problems(plan(CONTAINER, standard(), slice_pool("4x8", 8), RAY, trainer(**ON_4X4)))
    assert "asks for chips of tpu-v6e-slice 4x4 nodes, and no node pool in the plan has them" in found


def test_autopilot_makes_the_slice_that_pods_select() -> None:
    cluster = planned(
        "gcp:container/cluster:Cluster", "c", {"location": "us-east5", "enableAutopilot": True}, "container"
    )
    assert problems(plan(CONTAINER, cluster, RAY, trainer(**ON_4X4))) == []


def test_a_mounted_bucket_needs_the_driver_in_the_cluster() -> None:
    tree = kube("Pod", "trainer", "ray")
    tree["metadata"]["annotations"] = {"gke-gcsfuse/volumes": "true"}
    tree["spec"] = {
        "containers": [{"name": "main"}],
        "volumes": [{"name": "bucket", "csi": {"driver": pods.GCS_FUSE}}],
    }
    pod = planned(POD, "trainer", tree, "ns")
    assert problems(plan(CONTAINER, standard(gcsFuseCsiDriverConfig={"enabled": True}), RAY, pod)) == []
    (found,) = problems(plan(CONTAINER, standard(), RAY, pod))
    assert (
        "mounts a bucket, and the cluster's addonsConfig.gcsFuseCsiDriverConfig.enabled is not set" in found
    )
