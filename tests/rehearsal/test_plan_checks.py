"""What a first plan as a whole reveals."""

from typing import Any

import pytest

from cloud.accelerators import TOPOLOGY_LABEL, TPU_LABEL
from cloud.machines import TPU_RESOURCE
from engine.plan import Plan, Planned
from rehearsal.plan_checks import problems
from rehearsal.rules import pods
from tests.rehearsal.right import (
    CLUSTER,
    KUBE_SECRET,
    KUEUE_RELEASE,
    NAMESPACE,
    NETWORK,
    NODE_POOL,
    POD,
    SERVICE,
    SLICE_POOL,
    SUBNETWORK,
)

ENFORCE = "pod-security.kubernetes.io/enforce"
RESTRICTED = {ENFORCE: "restricted"}
KUEUE = "kueue.x-k8s.io/v1beta2"


def planned(type_token: str, name: str, inputs: dict[str, Any], *waits_for: str) -> Planned:
    return Planned(
        type=type_token, name=name, urn=name, parent="", op="create", inputs=inputs, dependencies=waits_for
    )


def api(name: str) -> Planned:
    return planned(SERVICE, name, {"service": f"{name}.googleapis.com"})


def kube(
    kind: str, name: str, namespace: str | None = "ray", version: str = "v1", **fields: Any
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def namespace(**labels: str) -> Planned:
    inputs = kube("Namespace", "ray", None)
    return planned(NAMESPACE, "ns", {**inputs, "metadata": {"name": "ray", "labels": labels}})


def secret(*waits_for: str, **fields: Any) -> Planned:
    return planned(KUBE_SECRET, "token", kube("Secret", "token", **fields), *waits_for)


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Planned:
    inputs = kube("Pod", "pod", spec={"containers": [{"name": "main"}], **spec})
    inputs["metadata"]["annotations"] = annotations or {}
    return planned(POD, "pod", inputs, "ns")


def ray_job() -> Planned:
    spec = {"entrypoint": "x", "clusterSelector": {"a": "b"}}
    return planned(
        "kubernetes:ray.io/v1:RayJob", "j", kube("RayJob", "j", version="ray.io/v1", spec=spec), "ns"
    )


def of_kueue(kind: str, name: str, *waits_for: str, **fields: Any) -> Planned:
    inputs = kube(kind, name, "ray" if kind == "LocalQueue" else None, KUEUE, **fields)
    return planned(f"kubernetes:{KUEUE}:{kind}", f"{kind}-{name}", inputs, *waits_for)


def job(*waits_for: str) -> Planned:
    """A Job in a queue."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    inputs = kube("Job", "job", version="batch/v1", spec={"template": template})
    labels = {"kueue.x-k8s.io/queue-name": "llm", "kueue.x-k8s.io/priority-class": "low"}
    inputs["metadata"]["labels"] = labels
    return planned("kubernetes:batch/v1:Job", "job", inputs, "ns", *waits_for)


def cluster(**inputs: Any) -> Planned:
    """A Standard cluster that enforces policies, unless the inputs say otherwise."""
    usual = {"name": "c", "location": "us-east5-b", "initialNodeCount": 1}
    return planned(CLUSTER, "c", {**usual, "datapathProvider": "ADVANCED_DATAPATH", **inputs}, "container")


def autopilot() -> Planned:
    return planned(CLUSTER, "c", {"location": "us-east5", "enableAutopilot": True}, "container")


def slice_pool(topology: str, hosts: int) -> Planned:
    placed = {"placementPolicy": {"type": "COMPACT", "tpuTopology": topology}, "nodeCount": hosts}
    return planned(NODE_POOL, "slice", {**SLICE_POOL, **placed}, "container", "containerfilesystem")


NS = namespace()
COMPUTE, CONTAINER = api("compute"), api("container")
APIS = (CONTAINER, api("containerfilesystem"))
NET = {"name": "net"}
FROM_SECRET = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}
READS_SECRET = pod(containers=[{"name": "main", "env": [FROM_SECRET]}])
RELEASE = planned("kubernetes:helm.sh/v3:Release", "kueue", {**KUEUE_RELEASE, "namespace": "ray"}, "ns")
LOW = of_kueue("WorkloadPriorityClass", "low", "kueue", value=1)
CLUSTER_QUEUE = of_kueue("ClusterQueue", "llm", "kueue", spec={})
LOCAL_QUEUE = of_kueue("LocalQueue", "llm", "ns", "ClusterQueue-llm", spec={"clusterQueue": "llm"})
EARLY_QUEUE = of_kueue("LocalQueue", "llm", "ns", "kueue", spec={"clusterQueue": "llm"})
WITH_KUEUE = (NS, RELEASE, LOW, CLUSTER_QUEUE, LOCAL_QUEUE)
POLICY = planned(
    "kubernetes:networking.k8s.io/v1:NetworkPolicy",
    "closed",
    kube("NetworkPolicy", "closed", version="networking.k8s.io/v1", spec={"podSelector": {}}),
    "ns",
)
CHIPS = {"requests": {TPU_RESOURCE: "4"}, "limits": {TPU_RESOURCE: "4"}}
ON_4X4 = pod(
    nodeSelector={TPU_LABEL: "tpu-v6e-slice", TOPOLOGY_LABEL: "4x4"},
    containers=[{"name": "main", "resources": CHIPS}],
)
MOUNTS_BUCKET = pod(
    {"gke-gcsfuse/volumes": "true"}, volumes=[{"name": "bucket", "csi": {"driver": pods.GCS_FUSE}}]
)

PASSES: dict[str, tuple[Planned, ...]] = {
    "a resource waits for its API directly or through others": (
        COMPUTE,
        planned(NETWORK, "net", NET, "compute"),
        planned(SUBNETWORK, "sub", {"ipCidrRange": "10.0.0.0/20", "network": "n"}, "net"),
    ),
    "an object waits for its namespace": (NS, secret("ns", stringData={"t": "x"})),
    "values that a plan does not show are not held against it": (NS, secret("ns", stringData="[secret]")),
    "what a pod names is made by the plan": (NS, READS_SECRET, secret("ns")),
    "queue and priority are there before the job": (
        *WITH_KUEUE,
        job("LocalQueue-llm", "WorkloadPriorityClass-low"),
    ),
    "Autopilot enforces policies": (CONTAINER, autopilot(), NS, POLICY),
    "and so does the data plane": (CONTAINER, cluster(), NS, POLICY),
    "pods select a slice of the plan": (*APIS, cluster(), slice_pool("4x4", 4), NS, ON_4X4),
    "Autopilot makes the slice that pods select": (CONTAINER, autopilot(), NS, ON_4X4),
    "the cluster has the driver of a mounted bucket": (
        CONTAINER,
        cluster(addonsConfig={"gcsFuseCsiDriverConfig": {"enabled": True}}),
        NS,
        MOUNTS_BUCKET,
    ),
}
FOUND: list[tuple[tuple[Planned, ...], list[str]]] = [
    (
        (COMPUTE, planned(NETWORK, "net", NET)),
        ["net: is not made to wait for compute.googleapis.com: add depends_on compute"],
    ),
    ((planned(NETWORK, "net", NET),), ["net: nothing in the plan enables compute.googleapis.com"]),
    ((NS, secret()), ["not made to wait for Namespace ray"]),
    ((secret(),), ["names Namespace ray, which nothing in the plan makes"]),
    # The engine does not ask the provider about objects of a cluster that is still to come.
    ((NS, secret("ns", dta={})), ["'dta' was unexpected"]),
    ((NS, READS_SECRET), ["names Secret token, which nothing in the plan makes in namespace ray"]),
    ((NS, pod(serviceAccountName="trainer")), ["names ServiceAccount trainer"]),
    (
        (namespace(**RESTRICTED), pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}})),
        [
            "violates PodSecurity restricted: container main: allowPrivilegeEscalation",
            "capabilities.drop must have ALL",
            "violates PodSecurity restricted: container main: runAsNonRoot",
        ],
    ),
    ((namespace(**RESTRICTED), ray_job()), ["the default submitter pod is not restricted"]),
    # Kueue would let such a job wait without a word.
    (
        (NS, RELEASE, job()),
        [
            "job: metadata.labels: names LocalQueue llm, which nothing in the plan makes in namespace ray",
            "job: metadata.labels: names WorkloadPriorityClass low, which nothing in the plan makes",
        ],
    ),
    (
        (*WITH_KUEUE, job("WorkloadPriorityClass-low")),
        ["job: metadata.labels: is not made to wait for LocalQueue llm: add depends_on"],
    ),
    (
        (NS, RELEASE, CLUSTER_QUEUE, EARLY_QUEUE),
        ["spec.clusterQueue: is not made to wait for ClusterQueue llm"],
    ),
    (
        (NS, RELEASE, of_kueue("ResourceFlavor", "l4", spec={})),
        ["is not made to wait for the release that defines its kind"],
    ),
    (
        (CONTAINER, cluster(datapathProvider=None), NS, POLICY),
        ["nothing enforces the plan's NetworkPolicies"],
    ),
    (
        (*APIS, cluster(), slice_pool("4x8", 8), NS, ON_4X4),
        ["asks for chips of tpu-v6e-slice 4x4 nodes, and no node pool in the plan has them"],
    ),
    (
        (CONTAINER, cluster(), NS, MOUNTS_BUCKET),
        ["mounts a bucket, and the cluster's addonsConfig.gcsFuseCsiDriverConfig.enabled is not set"],
    ),
]


@pytest.mark.parametrize("resources", PASSES.values(), ids=PASSES)
def test_a_plan_passes_where(resources: tuple[Planned, ...]) -> None:
    assert problems(Plan(resources=resources, changes={})) == []


@pytest.mark.parametrize(("resources", "messages"), FOUND)
def test_what_would_not_work_or_only_by_luck_is_found(
    resources: tuple[Planned, ...], messages: list[str]
) -> None:
    lines = problems(Plan(resources=resources, changes={}))
    assert len(lines) == len(messages)
    assert all(message in line for message, line in zip(messages, lines, strict=True))
