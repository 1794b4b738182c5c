"""The order of capacities that the answers speak for. It calls nobody."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from components.cluster.capacity import CapacityType
from operations.capacity.advice import History
from operations.capacity.rows import Reserved, Row

# Google calls a score up to 0.3 low, and from 0.7 on high.
LEAST: Final = 0.4
HIGH: Final = 0.7
# Flex-start stands before spot unless spot is better by more than this: a run keeps its nodes for seven days.
_ADVANTAGE: Final = 0.2
# Spot is left out if Google expects it to live for a minute, or took most machines away on so many days.
_SHORT_S: Final = 60
_MOST: Final = 0.5
_BAD_DAYS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Where the nodes should come from.

    Args:
        kinds: In the order in which they are tried.
        zone: Zone of the nodes that come from no reservation.
        reservation: The reservation to name, empty for none.
        reserved_in: Its zone.
    """

    machine: str
    kinds: tuple[CapacityType, ...]
    zone: str
    reservation: str = ""
    reserved_in: str = ""


def propose(rows: Sequence[Row]) -> Proposal | None:
    """The best list of capacities for one machine in one region, None if the answers speak for none."""
    reserved = [
        (row.reservation, row.zone)
        for row in rows
        if isinstance(row.reservation, Reserved) and _is_reserved(row)
    ]
    rated = [row for row in rows if _worth(row)]
    best = min(rated, key=_rank, default=None)
    if not reserved and best is None:
        return None
    kinds = [CapacityType.RESERVATION] if reserved else []
    kinds += _order(_worth(best)) if best else []
    first = max(reserved, key=lambda pair: pair[0].free, default=None)
    return Proposal(
        machine=rows[0].machine.name,
        kinds=tuple(kinds),
        zone=best.zone if best else first[1] if first else "",
        reservation=first[0].name if first else "",
        reserved_in=first[1] if first else "",
    )


def is_good(row: Row) -> bool:
    """Whether a row has a high score, or a reservation in which all nodes are free."""
    return _is_reserved(row) or any(score >= HIGH for score in _worth(row).values())


def spot_is_short(row: Row) -> bool:
    """Whether spot machines would be taken away before they are of use."""
    spot = row.scores.get(CapacityType.SPOT)
    if spot and spot.uptime_s is not None and spot.uptime_s <= _SHORT_S:
        return True
    rates = row.history.rates if isinstance(row.history, History) else ()
    return sum(rate > _MOST for rate in rates) >= _BAD_DAYS


def _is_reserved(row: Row) -> bool:
    return isinstance(row.reservation, Reserved) and row.reservation.free >= row.nodes


def _worth(row: Row) -> dict[CapacityType, float]:
    """The scores that are worth a try, by the kind of capacity."""
    return {
        kind: score.obtainability
        for kind, score in row.scores.items()
        if score.obtainability >= LEAST and not (kind is CapacityType.SPOT and spot_is_short(row))
    }


def _rank(row: Row) -> tuple[float, float, str]:
    """The best score first, then the lower price."""
    dollars = row.history.dollars if isinstance(row.history, History) else None
    return -max(_worth(row).values()), float("inf") if dollars is None else dollars, row.zone


def _order(scores: dict[CapacityType, float]) -> list[CapacityType]:
    def key(kind: CapacityType) -> float:
        return -scores[kind] - (_ADVANTAGE if kind is CapacityType.FLEX_START else 0.0)

    return sorted(scores, key=key)
