"""The reviewed plan of a stack, as tests/inventories/<stack>.yaml keeps it.

python -m tests.inventory a4-ray     rewrites the file from the plan of the real engine
"""

import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from engine.plan import Plan, Planned
from rehearsal import Rehearsal

FOLDER: Final = Path(__file__).parent / "inventories"

# Digests change with every line of training code, and the code itself has its own review.
_DIGEST: Final = re.compile(r"(?<=[-/])[0-9a-f]{8}\b")
# Automatic names, also where one resource names another, are new in every plan.
_RANDOM_SUFFIX: Final = re.compile(r"(?<=-)[0-9a-f]{7}\b")


def path_of(stack: str) -> Path:
    """The file of a stack's inventory."""
    return FOLDER / f"{stack}.yaml"


def written(stack: str) -> list[dict[str, Any]]:
    """The inventory as it was reviewed."""
    return yaml.safe_load(path_of(stack).read_text())


def inventory(plan: Plan) -> list[dict[str, Any]]:
    """Type, name, inputs and options of every resource, in an order that does not depend on the engine."""
    rows = [_row(resource) for resource in plan.resources if not resource.type.startswith("pulumi:pulumi:")]
    return sorted(rows, key=lambda row: (row["type"], row["name"]))


def _row(resource: Planned) -> dict[str, Any]:
    said: dict[str, Any] = {
        "parent": _short(resource.parent),
        "dependsOn": sorted(map(_short, resource.dependencies)),
        **resource.options,
        "inputs": _stable(resource, resource.inputs),
    }
    for key in ("provider", "deletedWith"):
        if key in said:
            said[key] = _short(said[key])
    if "::default_" in resource.options.get("provider", ""):
        del said["provider"]
    return {"type": resource.type, "name": resource.name, **{key: said[key] for key in said if said[key]}}


def _short(reference: str) -> str:
    """`Cluster a4-ray-cluster` for a URN, or for a provider's with its id."""
    types, name = reference.split("::")[2:4]
    return f"{types.rpartition(':')[2]} {_stable_text(name)}"


def _stable(resource: Planned, value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key == "data" and resource.type == "kubernetes:core/v1:ConfigMap":
            return dict.fromkeys(value, "<text>")
        return {name: _stable(resource, below, name) for name, below in value.items()}
    if isinstance(value, list):
        return [_stable(resource, below) for below in value]
    if isinstance(value, str):
        return _stable_text(value)
    return value


def _stable_text(text: str) -> str:
    return _RANDOM_SUFFIX.sub("<random>", _DIGEST.sub("<digest>", text))


def main(stacks: list[str]) -> None:
    """Rewrites the inventories of `stacks`."""
    for stack in stacks:
        with Rehearsal(stack) as rehearsal:
            rows = inventory(rehearsal.preview())
        path_of(stack).write_text(yaml.safe_dump(rows, sort_keys=True, width=110))
        print(f"{path_of(stack)}: {len(rows)} resources")


if __name__ == "__main__":
    main(sys.argv[1:])
