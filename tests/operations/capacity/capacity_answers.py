"""Google's answers about capacity, planted by zone and kind."""

from datetime import UTC, datetime
from typing import Any, Final

from cloud.discovery import Call
from tests.operations.google_server import Fault, GoogleServer

CAPACITY, HISTORY, CALENDAR = (
    f"compute.advice.{method}" for method in ("capacity", "capacityHistory", "calendarMode")
)
NOW: Final = datetime(2026, 11, 28, 20, tzinfo=UTC)
COMPUTE: Final = "https://www.googleapis.com/compute/beta/projects/p/zones"
ZONES: Final = ("us-central1-a", "us-central1-b", "us-central1-c")
CLOSED: Final = Fault(
    code=400, status="INVALID_ARGUMENT", message="The service is not available for this project."
)
NOT_OFFERED: Final = Fault(
    code=400,
    status="INVALID_ARGUMENT",
    message="Machine specification is not supported in locations: [us-central1-c].",
)


def score(
    obtainability: float, zone: str, uptime: str | None = "3600s", count: int | None = None
) -> dict[str, Any]:
    """An answer with one shard, whose zone is an address as beta has it."""
    scores = {"obtainability": obtainability, **({"estimatedUptime": uptime} if uptime else {})}
    shard = {"zone": f"{COMPUTE}/{zone}", **({"instanceCount": count} if count is not None else {})}
    return {"recommendations": [{"scores": scores, "shards": [shard]}]}


def days(*rates: float, until: int = 28) -> dict[str, Any]:
    """A history that ends with the day that begins on the 27th of November, and a price without an end."""
    first = until - len(rates)
    preempted = [
        {
            "interval": {
                "startTime": f"2026-11-{first + number:02}T08:00:00Z",
                "endTime": f"2026-11-{first + number + 1:02}T08:00:00Z",
            },
            "preemptionRate": rate,
        }
        for number, rate in enumerate(rates)
    ]
    old = {
        "interval": {"startTime": "2026-10-01T00:00:00Z", "endTime": "2026-11-01T00:00:00Z"},
        "listPrice": {"currencyCode": "USD", "units": "60"},
    }
    now = {
        "interval": {"startTime": "2026-11-01T00:00:00Z"},
        "listPrice": {"currencyCode": "USD", "units": "45", "nanos": 500_000_000},
    }
    return {"preemptionHistory": preempted, "priceHistory": [now, old]}


class Advice:
    """Answers for a server. Each is a message, or a `Fault`.

    Attributes:
        scores: By provisioning model and zone. Others are `{}`.
        histories: By zone. Others are `{}`.
        calendar: The one of the calendar.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.scores: dict[tuple[str, str], Any] = {}
        self.histories: dict[str, Any] = {}
        self.calendar: Any = {}
        self.bodies: list[Any] = []
        server.plant("compute.v1", CAPACITY, self._score)
        server.plant("compute.v1", HISTORY, self._history)
        server.plant("compute.v1", CALENDAR, self._window)

    def _score(self, _call: Call, body: Any) -> Any:
        self.bodies.append(body)
        (place,) = body["distributionPolicy"]["zones"]
        model = body["instanceProperties"]["scheduling"]["provisioningModel"]
        return _answer(self.scores.get((model, place["zone"].removeprefix("zones/")), {}))

    def _history(self, _call: Call, body: Any) -> Any:
        return _answer(self.histories.get(body["locationPolicy"]["location"].removeprefix("zones/"), {}))

    def _window(self, _call: Call, body: Any) -> Any:
        self.bodies.append(body)
        return _answer(self.calendar)


def _answer(answer: Any) -> Any:
    if isinstance(answer, Fault):
        raise answer
    return answer
