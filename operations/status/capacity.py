"""Which capacity of a list is tried, since when, and which had no machines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from operations.errors import ODD_ANSWER
from operations.status import words
from operations.status.cluster import Object
from operations.status.pods import condition_of, holds
from operations.status.report import Line, Why, line
from workloads.capacity_keeper.annotations import STOPPED, TRIED

# The kinds of capacity by the fields of a rule that say so.
_KINDS: Final = {"reservations": "reservation", "flexStart": "flex-start", "spot": "spot"}
# The autoscaler's condition of a rule without machines, and that of a rule with machines in some zones only.
_NOWHERE: Final = "ProvisioningSuspended"
_SOMEWHERE: Final = "ProvisioningConstrained"
_PAGE: Final = "docs/capacity.md"
_QUOTAS: Final = "https://console.cloud.google.com/iam-admin/quotas"
_PREFLIGHT: Final = "python -m operations preflight says what is wrong with it"
# The reasons of both conditions, in lower case without underscores.
# https://github.com/GoogleCloudPlatform/cluster-autoscaler, 2026-08-21.
_REASONS: Final[Mapping[str, Why]] = {
    "outofresources": Why(text="Google has no such machines now", bad=False),
    "capacityconstrained": Why(
        text="GKE expects too few machines, which is an estimate and no failed try", bad=False
    ),
    "reservationcapacityexceeded": Why(text="all machines of the reservation are in use", bad=False),
    "internalerror": Why(text="Google's side failed", bad=False),
    "quotaexceeded": Why(text="the project's quota is used up", remedy=f"ask for more at {_QUOTAS}"),
    "ipspaceexhausted": Why(
        text="the subnet has no addresses left", remedy="enlarge the ranges: docs/troubleshooting.md"
    ),
    "invalidreservation": Why(text="GKE cannot use the reservation", remedy=_PREFLIGHT),
    "vmexternalipaccesspolicyconstraint": Why(
        text="a policy of the organisation forbids machines with public addresses",
        remedy="pulumi up --refresh restores private nodes; or ask for an exception",
    ),
}


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
        tries, reasons = [], dict[str, Why]()
        for number, rule in enumerate(rules):
            kind = next((kind for field, kind in _KINDS.items() if rule.get(field)), "on demand")
            status = {"status": conditions.get(str(number), {})}
            if not holds(status, _NOWHERE):
                tries.append(kind)
            if reason := _reason(status, kind):
                reasons[kind] = reason
        yield line(
            "capacity",
            str(tree["metadata"]["name"]),
            f"tries {tries[0]}" if tries else "has no machines",
            why=_misconfigured(tree) or _without(reasons),
        )


def _reason(status: Object, kind: str) -> Why | None:
    """Why a rule has no machines in all or some of its zones. None if it may have some everywhere."""
    condition = next((name for name in (_NOWHERE, _SOMEWHERE) if holds(status, name)), "")
    if not condition:
        return None
    reason = str(condition_of(status, condition).get("reason") or "no reason given")
    key = reason.replace("_", "").lower()
    # GKE gives a stockout this reason too, if the rule has no reservation.
    if key == "invalidreservation" and kind != _KINDS["reservations"]:
        key = "outofresources"
    why = _REASONS.get(key, Why(text=reason, bad=False))
    return why if condition == _NOWHERE else replace(why, text=f"in some zones {why.text}")


def _without(reasons: Mapping[str, Why]) -> Why | None:
    """What is said of a class some of whose capacities have no machines."""
    if not reasons:
        return None
    text = "; ".join(f"{kind}: {why.text}" for kind, why in reasons.items())
    needs = [f"{kind}: {why.remedy}" for kind, why in reasons.items() if why.bad]
    if needs:
        return Why(text=text, remedy="; ".join(needs))
    return Why(text=f"{text}. GKE tries again", remedy=f"see {_PAGE}", bad=False)


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
