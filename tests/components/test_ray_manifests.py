"""The shipped Ray manifests, against the operator's own schemas where they are at hand.

The schemas are KubeRay's and not ours to commit; the tests look for them beside the checkout.
"""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from components.manifest import Manifest

ROOT = Path(__file__).parent.parent.parent
CRDS = ROOT.parent / "shared" / "crds"
CLUSTER = ROOT / "workloads" / "a4-ray" / "ray-cluster.yaml"
JOB = ROOT / "workloads" / "a4-ray" / "ray-job.yaml"
TPU_CLUSTER = ROOT / "workloads" / "tpu-maxtext" / "ray-cluster.yaml"
TPU_JOB = ROOT / "workloads" / "tpu-maxtext" / "ray-job.yaml"
IMAGE = f"registry/image@sha256:{'0' * 64}"

needs_crds = pytest.mark.skipif(not CRDS.is_dir(), reason=f"KubeRay's CRDs are not in {CRDS}")


def cluster() -> dict[str, Any]:
    values = {
        "name": "c",
        "namespace": "ray",
        "rayVersion": "2.60.0",
        "image": IMAGE,
        "serviceAccount": "finetune",
        "workers": 2,
        "capacity": {"cloud.google.com/gke-spot": "true"},
    }
    return Manifest(CLUSTER, values).tree


def job(**cluster_fields: Any) -> dict[str, Any]:
    values = {
        "name": "j",
        "namespace": "ray",
        "cluster": cluster_fields,
        "limit": {"activeDeadlineSeconds": 3600},
        "recipe": "r",
        "bucket": "b",
        "run": "x",
        "gpus": 16,
        "image": IMAGE,
        "code": {"name": "code", "items": [{"key": "a", "path": "a"}]},
    }
    return Manifest(JOB, values).tree


def tpu_cluster() -> dict[str, Any]:
    values = {
        "name": "c",
        "namespace": "ray",
        "rayVersion": "2.60.0",
        "image": IMAGE,
        "serviceAccount": "maxtext",
        "withoutToken": True,
        "bucket": "b",
        "mount": "/data",
        "slice": {"cloud.google.com/gke-tpu-topology": "4x4"},
        "hosts": 4,
        "chips": "4",
        "cpus": "72",
        "memory": "560Gi",
    }
    return Manifest(TPU_CLUSTER, values).tree


def tpu_job() -> dict[str, Any]:
    values = {
        "name": "j",
        "namespace": "ray",
        "cluster": {"rayClusterSpec": tpu_cluster()["spec"], "shutdownAfterJobFinishes": True},
        "limit": {},
        "recipe": "r",
        "mount": "/data",
        "run": "x",
        "hosts": 4,
        "topology": "4x4",
        "overrides": "",
        "image": IMAGE,
        "code": {"name": "code", "items": [{"key": "a", "path": "a"}]},
    }
    return Manifest(TPU_JOB, values).tree


def own_cluster() -> dict[str, Any]:
    return job(
        rayClusterSpec=cluster()["spec"],
        shutdownAfterJobFinishes=True,
        ttlSecondsAfterFinished=60,
        backoffLimit=2,
    )


def shared_cluster() -> dict[str, Any]:
    return job(clusterSelector={"ray.io/cluster": "c"}, backoffLimit=0)


def schema(kind: str) -> dict[str, Any]:
    crd = yaml.load((CRDS / f"ray.io_{kind}.yaml").read_text(), Loader=yaml.CSafeLoader)
    (served,) = [each for each in crd["spec"]["versions"] if each["name"] == "v1"]
    return served["schema"]["openAPIV3Schema"]


def unknown_fields(value: Any, rules: dict[str, Any], path: str = "") -> list[str]:
    """Fields that the API server would refuse: structural schemas do not forbid them by themselves."""
    if isinstance(value, list):
        return [each for item in value for each in unknown_fields(item, rules.get("items", {}), f"{path}[]")]
    if not isinstance(value, dict) or rules.get("x-kubernetes-preserve-unknown-fields"):
        return []
    found: list[str] = []
    for key, item in value.items():
        below = rules.get("properties", {}).get(key, rules.get("additionalProperties"))
        if below is None and rules.get("properties"):
            found.append(f"{path}.{key}")
        elif isinstance(below, dict):
            found += unknown_fields(item, below, f"{path}.{key}")
    return found


@needs_crds
@pytest.mark.parametrize(
    ("kind", "tree"),
    [
        ("rayclusters", cluster()),
        ("rayjobs", own_cluster()),
        ("rayjobs", shared_cluster()),
        ("rayclusters", tpu_cluster()),
        ("rayjobs", tpu_job()),
    ],
    ids=[
        "RayCluster",
        "RayJob with its own cluster",
        "RayJob on a shared cluster",
        "RayCluster on a TPU slice",
        "RayJob on a TPU slice",
    ],
)
def test_the_operator_knows_every_field(kind: str, tree: dict[str, Any]) -> None:
    rules = schema(kind)
    jsonschema.validate(tree, rules)
    assert unknown_fields(tree["spec"], rules["properties"]["spec"]) == []


@needs_crds
def test_a_misspelt_field_is_found() -> None:
    tree = own_cluster()
    tree["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resource"] = {}
    found = unknown_fields(tree["spec"], schema("rayjobs")["properties"]["spec"])
    assert found == [".rayClusterSpec.headGroupSpec.template.spec.containers[].resource"]
