"""The reviewed plan of a stack, as tests/inventories/<stack>.yaml keeps it.

python -m tests.inventory a4-ray     rewrites the file from the plan of the real engine
"""

import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from engine.plan import Plan, Planned
from engine.secrets import SIGNATURE
from operations.previews.stack_inputs import stack_file
from rehearsal.session import Rehearsal
from tests.plans import STACKS

FOLDER: Final = Path(__file__).parent / "inventories"

# Digests change with every line of training code, and the code itself has its own review.
_DIGEST: Final = re.compile(r"(?<=[-/])[0-9a-f]{8}\b")
# Automatic names, also where one resource names another, are new in every plan.
_RANDOM_SUFFIX: Final = re.compile(r"(?<=-)[0-9a-f]{7}\b")


def path_of(stack: str) -> Path:
    """The file of a stack's inventory."""
    return FOLDER / f"{stack}.yaml"


@cache
def written(stack: str) -> list[dict[str, Any]]:
    """The inventory as it was reviewed.

    The file of a stack that runs another stack's scenario has only the resources that differ from that one's.
    """
    rows = _by_name(yaml.safe_load(path_of(stack).read_text()))
    base = stack_file(stack)["scenario"]
    if base != stack:
        rows = _by_name(written(base)) | rows
    return _ordered(row for row in rows.values() if not row.get("absent"))


def _by_name(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["type"], row["name"]): row for row in rows}


def _ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["type"], row["name"]))


def _different(stack: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the file of a stack says: everything, or what is not as in its scenario's own stack."""
    base = stack_file(stack)["scenario"]
    if base == stack:
        return rows
    before, now = _by_name(written(base)), _by_name(rows)
    gone = [{"type": type_, "name": name, "absent": True} for type_, name in before.keys() - now.keys()]
    return _ordered([*gone, *(row for key, row in now.items() if before.get(key) != row)])


def inventory(plan: Plan) -> list[dict[str, Any]]:
    """Type, name, inputs and options of every resource, in an order that does not depend on the engine."""
    rows = [_row(resource) for resource in plan.resources if not resource.type.startswith("pulumi:pulumi:")]
    return _ordered(rows)


def _row(resource: Planned) -> dict[str, Any]:
    said: dict[str, Any] = {
        "parent": "" if ":pulumi:Stack::" in resource.parent else _short(resource.parent),
        "dependsOn": sorted(map(_short, resource.dependencies)),
        **resource.options,
        "inputs": _stable(resource, resource.inputs),
    }
    for key in ("provider", "deletedWith"):
        if key in said:
            said[key] = _short(said[key])
    # The same for all; test_retries.py looks at it.
    said.pop("resourceHooks", None)
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
        if SIGNATURE in value:
            value = {key: text for key, text in value.items() if key not in (SIGNATURE, "hash")}
        if "stack" in value and "scenario" in value:
            value = {**value, "stack": "<stack>"}
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
    for stack in sorted(stacks, key=lambda stack: stack not in STACKS):
        with Rehearsal(stack) as rehearsal:
            rows = _different(stack, inventory(rehearsal.preview()))
        path_of(stack).write_text(yaml.safe_dump(rows, sort_keys=True, width=110))
        print(f"{path_of(stack)}: {len(rows)} resources")


if __name__ == "__main__":
    main(sys.argv[1:])
