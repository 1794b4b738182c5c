"""Which capacity of a list is tried, since when, and which had no machines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from operations.errors import ODD_ANSWER
from operations.status import words
from operations.status.cluster import Object
from operations.status.pods import condition_of, holds
from operations.status.report import Line, Why, line
from workloads.capacity_keeper.annotations import STOPPED, TRIED

# The kinds of capacity by the fields of a rule that say so.
_KINDS: Final = {"reservations": "reservation", "flexStart": "flex-start", "spot": "spot"}
# The autoscaler's conditions of a rule without machines: in all zones, and in some.
_SUSPENDED: Final = ("ProvisioningSuspended", "ProvisioningConstrained")
_PAGE: Final = "docs/capacity.md"


def capacity_of(workload: Object) -> str:
    """The capacity that Kueue has chosen for a workload, with the time of its admission. Empty if none."""
    assignments = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    flavors = [flavor for group in assignments for flavor in (group.get("flavors") or {}).values()]
    if not flavors:
        return ""
    if not holds(workload, "Admitted"):
        return str(flavors[0])
    return f"{flavors[0]} since {_clock(condition_of(workload, 'Admitted').get('lastTransitionTime'))}"


def moves(workload: Object) -> bool:
    """Whether the keeper has stopped the workload, to move it to the next capacity."""
    return STOPPED in _annotations(workload)


def tried(workload: Object) -> Why | None:
    """The capacities that had no machines for a workload, None if none was given up."""
    try:
        tries: Sequence[Mapping[str, str]] = json.loads(_annotations(workload).get(TRIED, "[]"))
        texts = [f"{entry['capacity']} {_clock(entry['from'])} to {_clock(entry['to'])}" for entry in tries]
    except ODD_ANSWER:
        return None
    if not texts:
        return None
    return Why(text=f"no nodes for all its pods: {', '.join(texts)}", remedy=f"see {_PAGE}", bad=False)


def requested(workload: Object) -> Why | None:
    """What GKE says about the nodes that Kueue has requested for a workload. None if it requests none."""
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    if not checks:
        return None
    message = str(checks[0].get("message") or "the request is new")
    return Why(text=f"no node costs until all are there; GKE: {message}", remedy=f"see {_PAGE}", bad=False)


def classes(trees: Sequence[Object]) -> Iterator[Line]:
    """A line for each ComputeClass: which of its rules have no machines, and what is wrong with them."""
    for tree in trees:
        rules = (tree.get("spec") or {}).get("priorities") or ()
        statuses = (tree.get("status") or {}).get("priorityStatuses") or ()
        conditions = {str(status.get("identifier")): status for status in statuses}
        states, reasons = [], []
        for number, rule in enumerate(rules):
            kind = next((kind for field, kind in _KINDS.items() if rule.get(field)), "on demand")
            if dry := _dry(conditions.get(str(number), {})):
                reasons.append(f"{kind}: {dry}")
            else:
                states.append(kind)
        yield line(
            "capacity",
            str(tree["metadata"]["name"]),
            f"tries {states[0]}" if states else "has no machines",
            why=_misconfigured(tree) or _without(reasons),
        )


def _dry(status: Mapping[str, Any]) -> str:
    """Why a rule has no machines, empty if it may have some."""
    tree = {"status": status}
    return next((condition_of(tree, name).get("reason", "") for name in _SUSPENDED if holds(tree, name)), "")


def _without(reasons: Sequence[str]) -> Why | None:
    if not reasons:
        return None
    return Why(
        text=f"no machines now: {', '.join(reasons)}; GKE tries again", remedy=f"see {_PAGE}", bad=False
    )


def _misconfigured(tree: Object) -> Why | None:
    """What GKE says is wrong with a class, for example a reservation that it does not find."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    wrong = [
        str(condition.get("message") or "")
        for condition in conditions
        if str(condition.get("type")).endswith("Misconfigured") and condition.get("status") == "True"
    ]
    if not wrong:
        return None
    return words.explain(*wrong, otherwise="GKE cannot use it: {}", remedy="correct the setting, pulumi up")


def _annotations(tree: Object) -> Mapping[str, str]:
    return tree["metadata"].get("annotations") or {}


def _clock(time: Any) -> str:
    """Hours and minutes of a time, in UTC."""
    return str(time)[11:16]
