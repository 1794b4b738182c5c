"""Pods of a TPU slice are as GKE's webhook lets them in, with the labels of KubeRay before and since 1.5."""

from typing import Any

import pytest

from rehearsal.pods.kubelet import pod_names
from rehearsal.running_pods.tpu_webhook import admitted

HOSTNAMES = ",".join(f"tpu-0-{number}.llama-x7-headless" for number in range(4))


def pod(topology: str = "4x4", cluster: str = "llama-x7", **labels: str) -> dict[str, Any]:
    own = {"ray.io/cluster": cluster, "ray.io/group": "tpu"}
    container = {"name": "ray-worker", "resources": {"limits": {"google.com/tpu": "4"}}}
    return {
        "metadata": {"namespace": "llm", "uid": "1", "labels": {**own, **labels}},
        "spec": {
            "nodeSelector": {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
                "cloud.google.com/gke-tpu-topology": topology,
            },
            "containers": [{"name": "sidecar"}, container],
        },
    }


def numbered(replica: int, host: int, topology: str = "4x4") -> dict[str, Any]:
    """A pod with the labels of KubeRay 1.5 and newer."""
    return pod(
        topology,
        **{
            "ray.io/worker-group-replica-name": "tpu-s862h",
            "ray.io/worker-group-replica-index": str(replica),
            "ray.io/replica-host-index": str(host),
        },
    )


def variables(tree: dict[str, Any]) -> dict[str, str]:
    sidecar, worker = tree["spec"]["containers"]
    assert "env" not in sidecar
    return {variable["name"]: variable["value"] for variable in worker["env"]}


def test_a_host_is_called_by_group_replica_and_index_and_knows_all_hosts_of_its_slice() -> None:
    tree = admitted(numbered(0, 2), [])
    assert variables(tree) == {
        "TPU_NAME": "tpu-0",
        "TPU_WORKER_HOSTNAMES": HOSTNAMES,
        "TPU_WORKER_ID": "2",
    }
    assert (tree["spec"]["hostname"], tree["spec"]["subdomain"]) == ("tpu-0-2", "llama-x7-headless")
    assert "tpu-1-3." in variables(admitted(numbered(1, 0), []))["TPU_WORKER_HOSTNAMES"]


def test_without_kuberay_s_numbers_a_pod_takes_the_first_free_place() -> None:
    pods: list[dict[str, Any]] = []
    for _ in range(6):
        pods.append(admitted(pod(), pods))
    places = [(variables(tree)["TPU_NAME"], variables(tree)["TPU_WORKER_ID"]) for tree in pods]
    assert places == [*(("tpu-0", str(host)) for host in range(4)), ("tpu-1", "0"), ("tpu-1", "1")]
    assert [tree["metadata"]["labels"]["replicaIndex"] for tree in pods][3:5] == ["tpu-0", "tpu-1"]
    replaced = admitted(pod(), [tree for tree in pods if tree is not pods[1]])
    assert replaced["spec"]["hostname"] == "tpu-0-1"


def test_another_ray_cluster_has_places_of_its_own() -> None:
    others = [admitted(pod(cluster="another"), [])]
    assert admitted(pod(), others)["spec"]["hostname"] == "tpu-0-0"


def test_a_slice_of_one_host_needs_no_names() -> None:
    tree = admitted(numbered(0, 0, topology="2x2"), [])
    assert variables(tree) == {"TPU_NAME": "tpu-0", "TPU_WORKER_ID": "0"}
    assert "hostname" not in tree["spec"]


def test_a_variable_of_the_manifest_stays() -> None:
    tree = numbered(0, 1)
    tree["spec"]["containers"][1]["env"] = [{"name": "TPU_NAME", "value": "mine"}]
    assert variables(admitted(tree, []))["TPU_NAME"] == "mine"
    assert len(tree["spec"]["containers"][1]["env"]) == 1


def test_a_pod_without_tpus_is_left_alone() -> None:
    tree = numbered(0, 1)
    del tree["spec"]["containers"][1]
    assert admitted(tree, []) is tree


@pytest.mark.parametrize("service", ["llama-x7-headless", "other"])
def test_the_hosts_are_found_by_these_names(service: str) -> None:
    end = {"addresses": ["10.8.0.2"], "conditions": {"ready": True}, "targetRef": {"uid": "1"}}
    metadata = {"namespace": "llm", "labels": {"kubernetes.io/service-name": service}}
    ((address, names),) = pod_names(
        [{"metadata": metadata, "endpoints": [end]}], [admitted(numbered(0, 1), [])]
    )
    assert address == "10.8.0.2"
    assert ("tpu-0-1.llama-x7-headless" in names.split()) == (service == "llama-x7-headless")


def test_a_server_on_chips_is_none_of_ray_s() -> None:
    tree = pod("1x1")
    tree["metadata"]["labels"] = {"app": "serving"}
    assert admitted(tree, []) is tree
