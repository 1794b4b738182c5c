"""The reviewed structure of a stack's plan, as tests/inventories/<stack>.yaml keeps it.

python -m tests.inventory a4-ray             rewrites the file from the plan of the real engine
python -m tests.inventory a4-ray --changes   prints the inputs that have changed since the file was written
"""

import argparse
import hashlib
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from pulumi.runtime import rpc

from engine.plan import Plan, Planned, changes
from engine.project import ROOT
from engine.secrets import SIGNATURE
from operations.previews.checkout import exported
from operations.previews.stack_inputs import stack_file
from rehearsal.session import Rehearsal
from tests.plans import STACKS

FOLDER: Final = Path(__file__).parent / "inventories"

# An inventory: the row of every resource by `TYPE NAME`.
Inventory = dict[str, dict[str, Any]]

# Inputs that a reviewer reads in every diff, by the name of the property at any depth. The other inputs are
# in the digest.
_COSTS: Final = (
    *("machineType", "guestAccelerators", "nodeCount", "initialNodeCount", "autoscaling", "nodeLocations"),
    *("diskSizeGb", "spot", "flexStart", "reservationAffinity", "tpuTopology", "location"),
    *("minInstanceCount", "maxInstanceCount", "taskCount", "cpuIdle", "timeout", "maxRetries", "limits"),
    *("replicas", "minReplicas", "maxReplicas", "numOfHosts", "parallelism", "completions"),
    *("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "shutdownAfterJobFinishes"),
    *("nominalQuota", "preemption"),
)
_OPENS: Final = (
    *("role", "member", "ingress", "publicAccessPrevention", "uniformBucketLevelAccess", "serviceAccount"),
    *("invokerIamDisabled", "enablePrivateNodes", "masterAuthorizedNetworksConfig", "egress"),
    "controlPlaneEndpointsConfig",
)
_DELETES: Final = (
    *("forceDestroy", "deletionProtection", "retentionDurationSeconds", "olderThan", "keepCount"),
    *("disableOnDestroy", "cleanupPolicyDryRun"),
)
_RUNS: Final = ("image", "recurrence")
_REVIEWED: Final = frozenset((*_COSTS, *_OPENS, *_DELETES, *_RUNS))

# Digests change with every line of training code, and the code itself has its own review.
_DIGEST: Final = re.compile(r"(?<=[-/])[0-9a-f]{8}\b")
# Automatic names, also where one resource names another, are new in every plan.
_RANDOM_SUFFIX: Final = re.compile(r"(?<=-)[0-9a-f]{7}\b")
_DIGEST_LENGTH: Final = 8
# So many resources of a component are named together.
_MANY: Final = 4
# Characters of a line in a file.
_LINE: Final = 110


def path_of(stack: str) -> Path:
    """The file of a stack's inventory."""
    return FOLDER / f"{stack}.yaml"


@cache
def written(stack: str) -> Inventory:
    """The inventory as it was reviewed.

    The file of a stack that runs another stack's scenario has only the resources that differ from that one's.
    """
    rows: Inventory = yaml.load(path_of(stack).read_text(), yaml.CSafeLoader)
    base = stack_file(stack)["scenario"]
    if base != stack:
        rows = written(base) | rows
    return {key: row for key, row in rows.items() if not row.get("absent")}


def types(stack: str) -> set[str]:
    """The types of the resources in a stack's inventory."""
    return {key.partition(" ")[0] for key in written(stack)}


def inventory(plan: Plan) -> Inventory:
    """The rows of a plan, in an order that does not depend on the engine."""
    resources = [resource for resource in plan.resources if not resource.type.startswith("pulumi:pulumi:")]
    parts = _parts(resources)
    return {_key(resource): _row(resource, parts) for resource in sorted(resources, key=_key)}


def differences(before: Inventory, after: Inventory) -> Iterator[str]:
    """A line for every difference between two inventories."""
    for key in sorted({*before, *after}):
        if key not in after:
            yield f"{key}: is no longer planned"
        elif key not in before:
            yield f"{key}: is new"
        else:
            for path, old, new in changes(before[key], after[key]):
                yield f"{key}: {path}: {old} -> {new}"


def changed_inputs(stack: str, checkout: Path) -> Iterator[str]:
    """A line for every input of a stack that the program of another checkout has otherwise."""
    with Rehearsal(stack, checkout=checkout) as rehearsal:
        before = _stable_inputs(rehearsal.preview())
        rehearsal.move(ROOT)
        after = _stable_inputs(rehearsal.preview())
    for key in sorted(before.keys() & after.keys()):
        for path, old, new in changes(before[key], after[key]):
            yield f"{key}: {path}: {old} -> {new}"


def _last_review(stack: str) -> str:
    """The commit that last changed a stack's inventory."""
    files = [str(path_of(name)) for name in (stack, stack_file(stack)["scenario"])]
    command = ["git", "log", "-1", "--format=%H", "--", *files]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _key(resource: Planned) -> str:
    return f"{resource.type} {resource.name}"


def _parts(resources: list[Planned]) -> dict[str, set[str]]:
    """The resources of every component with more than a few, by the component's URN."""
    parts: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        parts[resource.parent].add(resource.urn)
    return {component: urns for component, urns in parts.items() if len(urns) >= _MANY}


def _waits(resource: Planned, parts: Mapping[str, set[str]]) -> list[str]:
    """What a resource waits for. `all of COMPONENT` stands for the resources of a component."""
    urns = set(resource.dependencies)
    names = []
    for component, members in parts.items():
        if members <= urns:
            urns -= members
            names.append(f"all of {_short(component)}")
    return sorted([*names, *map(_short, urns)])


def _row(resource: Planned, parts: Mapping[str, set[str]]) -> dict[str, Any]:
    options = dict(resource.options)
    for name in ("provider", "deletedWith"):
        if name in options:
            options[name] = _short(options[name])
    # These are the same for all resources. test_retries.py tests them.
    options.pop("resourceHooks", None)
    if "::default_" in resource.options.get("provider", ""):
        del options["provider"]
    inputs = _stable(resource, resource.inputs)
    row = {
        "parent": "" if ":pulumi:Stack::" in resource.parent else _short(resource.parent),
        "waits": _waits(resource, parts),
        "options": options,
        "inputs": dict(_reviewed(inputs)),
        "digest": _digest(inputs) if inputs else "",
    }
    return {name: value for name, value in row.items() if value}


def _reviewed(value: Any, path: str = "", *, is_reviewed: bool = False) -> Iterator[tuple[str, Any]]:
    """The reviewed inputs in a tree by their paths, such as `nodeConfig.machineType`."""
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            place = f"{path}.{key}" if path else key
            yield from _reviewed(below, place, is_reviewed=is_reviewed or key in _REVIEWED)
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from _reviewed(below, f"{path}[{index}]", is_reviewed=is_reviewed)
    elif is_reviewed:
        yield path, value


def _digest(inputs: Any) -> str:
    text = json.dumps(inputs, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


def _short(reference: str) -> str:
    """`Cluster a4-ray-cluster` for a URN, or for a provider's with its id."""
    types, name = reference.split("::")[2:4]
    return f"{types.rpartition(':')[2]} {_stable_text(name)}"


def _stable_inputs(plan: Plan) -> dict[str, Any]:
    return {_key(resource): _stable(resource, resource.inputs) for resource in plan.resources}


def _stable(resource: Planned, value: Any, key: str = "") -> Any:
    """A copy of an input without the parts that differ from plan to plan."""
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
    known = text.replace(rpc.UNKNOWN, "<output>")
    return _RANDOM_SUFFIX.sub("<random>", _DIGEST.sub("<digest>", known))


def _different(stack: str, rows: Inventory) -> Inventory:
    """The content of a stack's file: everything, or the differences from its scenario's own stack."""
    base = stack_file(stack)["scenario"]
    if base == stack:
        return rows
    before = written(base)
    absent: Inventory = {key: {"absent": True} for key in before.keys() - rows.keys()}
    changed = {key: row for key, row in rows.items() if before.get(key) != row}
    return dict(sorted((absent | changed).items()))


class _Dumper(yaml.SafeDumper):
    """Writes a mapping that fits in a line as one line, and a list in as few lines as possible."""

    def represent_mapping(self, tag: str, mapping: Any, *_: object, **__: object) -> yaml.MappingNode:
        return super().represent_mapping(tag, mapping, flow_style=len(str(mapping)) < _LINE)

    def represent_sequence(self, tag: str, sequence: Any, *_: object, **__: object) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=True)


def write(stacks: list[str]) -> None:
    """Rewrites the inventories of stacks."""
    # A stack that runs another stack's scenario is compared with that stack's new inventory.
    for stack in sorted(stacks, key=lambda stack: stack not in STACKS):
        with Rehearsal(stack) as rehearsal:
            rows = _different(stack, inventory(rehearsal.preview()))
        path_of(stack).write_text(yaml.dump(rows, Dumper=_Dumper, sort_keys=False, width=_LINE))
        print(f"{path_of(stack)}: {len(rows)} resources")


def show_changes(stacks: list[str]) -> None:
    """Prints the inputs that have changed since the commits that wrote the inventories."""
    for stack in stacks:
        commit = _last_review(stack)
        print(f"inputs of {stack} that have changed since commit {commit[:12]}:")
        with exported(ROOT, commit) as checkout:
            print("\n".join(changed_inputs(stack, checkout)) or "none")


def main(arguments: list[str] | None = None) -> None:
    """Writes inventories, or shows changes."""
    parser = argparse.ArgumentParser(prog="python -m tests.inventory")
    parser.add_argument("stacks", nargs="+", metavar="STACK")
    parser.add_argument("--changes", action="store_true", help="print the changed inputs and write nothing")
    options = parser.parse_args(arguments)
    action = show_changes if options.changes else write
    action(options.stacks)


if __name__ == "__main__":
    main()
