"""Google's advice on capacity: estimates, the history of spot, and the calendar.

The methods are `advice.capacity`, `advice.capacityHistory` and `advice.calendarMode` of Compute Engine. One
call has one score for everything in it, so each zone, machine and kind is a call of its own. A question that
Google refuses is an answer too: `Refused`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from cloud.machines import Machine
from operations.errors import ODD_ANSWER, CallError
from operations.google.clients import Clients, last

T = TypeVar("T")

# Days of the history that count, and how far ahead the calendar books: GPUs, TPUs.
_WEEK: Final = 7
_GPU_DAYS: Final = 60
_TPU_DAYS: Final = 120
_DAY_S: Final = 86_400
_NAME: Final = "nodes"
# Assumption advice-permissions.
_ROLES: Final = {"calendarMode": "roles/compute.futureReservationUser"}
_ROLE: Final = "roles/compute.viewer"
# The texts of errors 400 (assumption advice-models).
_CLOSED: Final = "service is not available for this project"
_NOT_OFFERED: Final = "is not supported in locations"
_TPU_FAMILY: Final = "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why a question has no answer.

    Args:
        short: In two or three words.
        reason: For a person, with what to do.
        is_answer: Whether Google answered, for example that it does not offer the machine there.
    """

    short: str
    reason: str
    is_answer: bool = False


@dataclass(frozen=True, kw_only=True)
class Score:
    """Google's estimate for so many nodes at once.

    Args:
        obtainability: From 0 to 1. From 0.7 on it is high, up to 0.3 it is low.
        nodes: The number that the estimate is for, which may be fewer than asked.
        uptime_s: Seconds that spot machines will live at least. None if Google says nothing.
    """

    obtainability: float
    nodes: int
    uptime_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class History:
    """Spot in the last seven whole days.

    Args:
        rates: For each day the part of all ended machines that Google took away. Days may be missing.
        dollars: Newest price of a machine for an hour, None if unknown.
    """

    rates: tuple[float, ...]
    dollars: float | None


@dataclass(frozen=True, kw_only=True)
class Window:
    """The first time for which the calendar has the nodes."""

    start: str
    end: str


@dataclass(frozen=True, kw_only=True)
class Need:
    """The machines of a question."""

    project: str
    machine: Machine
    nodes: int


def score(clients: Clients, need: Need, zone: str, model: str) -> Score | Refused:
    """Google's estimate for one zone.

    Args:
        model: `SPOT`, `FLEX_START` or `STANDARD`.
    """
    body = {
        "size": need.nodes,
        "instanceProperties": {"scheduling": {"provisioningModel": model}},
        "instanceFlexibilityPolicy": {"instanceSelections": {_NAME: {"machineTypes": [need.machine.name]}}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{zone}"}]},
    }

    def read(answer: Mapping[str, Any]) -> Score | Refused:
        advice = next(iter(answer.get("recommendations", ())), {})
        scores, shards = advice.get("scores", {}), advice.get("shards", ())
        if "obtainability" not in scores:
            return _none("Google has no estimate for it")
        elsewhere = {last(shard.get("zone")) for shard in shards} - {zone, ""}
        if elsewhere:
            return _none(f"the answer is about {', '.join(sorted(elsewhere))}, which nobody asked about")
        uptime = str(scores.get("estimatedUptime") or "").removesuffix("s")
        counts = [int(shard["instanceCount"]) for shard in shards if "instanceCount" in shard]
        return Score(
            obtainability=float(scores["obtainability"]),
            nodes=min(need.nodes, sum(counts)) if counts else need.nodes,
            uptime_s=int(float(uptime)) if uptime else None,
        )

    return _ask(clients, "capacity", need.project, zone.rpartition("-")[0], body, read)


def history(clients: Clients, need: Need, zone: str, now: datetime) -> History | Refused:
    """How often Google took spot machines away in a zone, and what they cost."""
    spot = {"machineType": need.machine.name, "scheduling": {"provisioningModel": "SPOT"}}
    body = {
        "types": ["PREEMPTION", "PRICE"],
        "instanceProperties": spot,
        "locationPolicy": {"location": f"zones/{zone}"},
    }

    def read(answer: Mapping[str, Any]) -> History | Refused:
        # Today's rate still changes.
        whole = [
            record
            for record in answer.get("preemptionHistory", ())
            if now - timedelta(days=_WEEK + 1) < _end(record, now + timedelta(days=1)) <= now
        ]
        prices = sorted(answer.get("priceHistory", ()), key=lambda record: record["interval"]["startTime"])
        price = prices[-1]["listPrice"] if prices else {}
        known = price.get("currencyCode") == "USD"
        dollars = int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9
        rates = [float(record.get("preemptionRate", 0.0)) for record in sorted(whole, key=_start)]
        return History(rates=tuple(rates[-_WEEK:]), dollars=dollars if known else None)

    return _ask(clients, "capacityHistory", need.project, zone.rpartition("-")[0], body, read)


def calendar(
    clients: Clients, need: Need, region: str, zones: Sequence[str], days: int, now: datetime
) -> dict[str, Window | Refused]:
    """The first time in each zone for which the calendar has the nodes for so many days."""
    tpu = need.machine.is_tpu
    chips = {"vmFamily": _TPU_FAMILY, "acceleratorCount": str(need.nodes * need.machine.count)}
    machines = {"machineType": need.machine.name, "instanceCount": str(need.nodes)}
    ahead = _TPU_DAYS if tpu else _GPU_DAYS
    spec = {
        "targetResources": {"aggregateResources": {**chips, "workloadType": "BATCH"}}
        if tpu
        else {"specificSkuResources": machines},
        "timeRangeSpec": {
            "startTimeNotEarlierThan": _time(now),
            "startTimeNotLaterThan": _time(now + timedelta(days=ahead)),
            "minDuration": f"{days * _DAY_S}s",
            "maxDuration": f"{days * _DAY_S}s",
        },
        "locationPolicy": {"locations": {f"zones/{zone}": {"preference": "ALLOW"} for zone in zones}},
        "deploymentType": "DENSE",
    }

    def read(answer: Mapping[str, Any]) -> dict[str, Window | Refused]:
        advice = next(iter(answer.get("recommendations", ())), {})
        offer = next(iter(advice.get("recommendationsPerSpec", {}).values()), {})
        others = {last(zone): other for zone, other in offer.get("otherLocations", {}).items()}
        answers: dict[str, Window | Refused] = {
            zone: _other(others.get(zone, {}), days, ahead) for zone in zones
        }
        if offer.get("location") and offer.get("startTime"):
            window = Window(start=offer["startTime"], end=str(offer.get("endTime", "")))
            answers[last(offer["location"])] = window
        return answers

    body = {"futureResourcesSpecs": {_NAME: spec}}
    answered = _ask(clients, "calendarMode", need.project, region, body, read)
    return dict.fromkeys(zones, answered) if isinstance(answered, Refused) else answered


def _other(other: Mapping[str, Any], days: int, ahead: int) -> Refused:
    """What the calendar says about a zone that it does not recommend."""
    status, details = other.get("status", ""), str(other.get("details") or "")
    if status == "NOT_SUPPORTED":
        return Refused(short="not offered", reason="the calendar does not have it there", is_answer=True)
    if status == "RECOMMENDED":
        return Refused(short="later", reason="the calendar has it there too, later", is_answer=True)
    if status == "CONDITIONS_NOT_MET":
        return Refused(short="not so", reason=details or "the calendar has it, not so", is_answer=True)
    reason = f"the calendar has nothing for {days} days in a row within {ahead} days"
    return Refused(short="none", reason=reason, is_answer=True)


def _ask(
    clients: Clients,
    method: str,
    project: str,
    region: str,
    body: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], T],
) -> T | Refused:
    """What `read` makes of the answer. Every failure is a `Refused`."""
    try:
        return read(clients.call("compute.v1", f"advice.{method}", project=project, region=region, body=body))
    except CallError as error:
        return _refused(method, error, project)
    except ODD_ANSWER as error:
        return Refused(short="not understood", reason=f"the answer is not understood: {error}")


def _refused(method: str, error: CallError, project: str) -> Refused:
    if error.disabled:
        enable = f"gcloud services enable {error.disabled} --project {project}"
        return Refused(short="API is off", reason=f"{error.disabled} is not enabled: {enable}")
    if error.forbidden:
        role = _ROLES.get(method, _ROLE)
        reason = f"you lack compute.advice.{method}, which {role} has: ask for the role in {project}"
        return Refused(short="not allowed", reason=reason)
    if _CLOSED in error.reason:
        reason = "Google answers this question for chosen projects only: ask your contact at Google for it"
        return Refused(short="not open", reason=reason)
    if _NOT_OFFERED in error.reason:
        return Refused(short="not offered", reason="Google does not have it there", is_answer=True)
    return Refused(short="no answer", reason=str(error))


def _none(reason: str) -> Refused:
    return Refused(short="unknown", reason=reason, is_answer=True)


def _start(record: Mapping[str, Any]) -> str:
    return str(record["interval"]["startTime"])


def _end(record: Mapping[str, Any], otherwise: datetime) -> datetime:
    end = record["interval"].get("endTime")
    return datetime.fromisoformat(end) if end else otherwise


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
