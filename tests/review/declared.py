"""Writes what the stacks declare in the forms that checkov reads: manifests, and a plan of Terraform."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from engine.plan import Plan, Planned
from tests import plans

# Modules of Pulumi's types with another name in Terraform's.
_MODULES: Final = {
    "artifactregistry": "artifact_registry",
    "cloudrunv2": "cloud_run_v2",
    "projects": "project",
    "secretmanager": "secret_manager",
    "serviceaccount": "service",
}
# Inputs that are maps of texts. All other objects are blocks, of which Terraform has lists.
_MAPS: Final = ("labels", "resource_labels", "user_labels", "annotations")
_VERSION: Final = "1.2"


def write(plan: Plan, stack: str, folder: Path, *, images_are_known: bool) -> None:
    """Writes `STACK.json`, and `STACK.yaml` unless the plan has images that will be built."""
    if images_are_known:
        objects = [tree for resource in plan.resources for tree in _objects(resource)]
        (folder / f"{stack}.yaml").write_text(yaml.safe_dump_all(objects))
    resources = [
        {
            "address": f"{_type(resource)}.{resource.name}",
            "mode": "managed",
            "type": _type(resource),
            "name": resource.name,
            "provider_name": "registry.terraform.io/hashicorp/google",
            "values": _block(resource.inputs),
        }
        for resource in plan.resources
        if resource.type.startswith("gcp:")
    ]
    changes = [
        {**entry, "change": {"actions": ["create"], "before": None, "after": entry["values"]}}
        for entry in resources
    ]
    tree = {
        "format_version": _VERSION,
        "terraform_version": "1.9.0",
        "planned_values": {"root_module": {"resources": resources}},
        "resource_changes": changes,
        "configuration": {"root_module": {}},
    }
    (folder / f"{stack}.json").write_text(json.dumps(tree))


def _objects(resource: Planned) -> Iterator[dict[str, Any]]:
    """An object, and the pods of kinds that checkov does not know."""
    if not resource.type.startswith("kubernetes:") or resource.type.endswith(":Release"):
        return
    tree = json.loads(json.dumps(resource.inputs))
    if "apiVersion" not in tree:
        return
    yield tree
    if tree["kind"] in ("RayJob", "RayCluster"):
        for number, (_, spec) in enumerate(plans.pods(Plan(resources=(resource,), changes={}))):
            metadata = {
                "name": f"{tree['metadata']['name']}-{number}",
                "namespace": tree["metadata"]["namespace"],
            }
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _type(resource: Planned) -> str:
    _, module, name = resource.type.split(":")
    module = module.partition("/")[0]
    return f"google_{_MODULES.get(module, module)}_{_snake(name.replace('IAM', 'Iam'))}"


def _block(inputs: Any) -> Any:
    if isinstance(inputs, list):
        return [_block(entry) for entry in inputs]
    if not isinstance(inputs, dict):
        return inputs
    values = {}
    for key, value in inputs.items():
        name = _snake(key)
        block = _block(value)
        values[name] = [block] if isinstance(value, dict) and name not in _MAPS else block
    return values


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower()
