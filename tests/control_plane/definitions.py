"""Writes what Ray's and Kueue's definitions say of their objects, for rehearsals without an API server.

`python -m tests.control_plane.definitions`, after an upgrade of tools/kuberay or tools/kueue.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from engine import go_build
from rehearsal.control_plane.programs import KUBERAY, KUEUE
from rehearsal.rules import json_schema

FILES = {
    "RayCluster": "kuberay/crd/ray.io_rayclusters.yaml",
    "RayJob": "kuberay/crd/ray.io_rayjobs.yaml",
    "ClusterQueue": "kueue/chart/templates/crd/kueue.x-k8s.io_clusterqueues.yaml",
    "LocalQueue": "kueue/chart/templates/crd/kueue.x-k8s.io_localqueues.yaml",
    "ResourceFlavor": "kueue/chart/templates/crd/kueue.x-k8s.io_resourceflavors.yaml",
}
# Checked as what they are, pod templates of Kubernetes.
TEMPLATES = ("template", "submitterPodTemplate")
TAKEN = ("enum", "items", "maximum", "minimum", "minItems", "pattern", "required", "type")


def defined() -> dict[str, Any]:
    """The schema of each kind's spec, of the versions that tools/ pins."""
    go_build.build([KUBERAY, KUEUE], print)
    found = {}
    for kind, path in FILES.items():
        # A chart's template around it; the definition itself is plain.
        lines = (go_build.TOOLS / path).read_text().partition("\nspec:")[2].splitlines()
        spec = yaml.safe_load("\n".join(["spec:", *(line for line in lines if "{{" not in line)]))["spec"]
        (version,) = (each for each in spec["versions"] if each["storage"])
        found[kind] = strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return found


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that rejects unknown fields, without descriptions and rules in Kubernetes' own language."""
    return dict(parts(schema))


def parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in TAKEN:
        if key in schema:
            yield key, strict(schema[key]) if key == "items" else schema[key]
    if schema.get("x-kubernetes-int-or-string"):
        yield "type", ["integer", "string"]
    if "properties" in schema:
        inner = schema["properties"].items()
        yield (
            "properties",
            {name: {"type": "object"} if name in TEMPLATES else strict(each) for name, each in inner},
        )
        yield "additionalProperties", False
    elif isinstance(schema.get("additionalProperties"), dict):
        yield "additionalProperties", strict(schema["additionalProperties"])


def text() -> str:
    return json.dumps(defined(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(json_schema.DEFINITIONS).write_text(text())
