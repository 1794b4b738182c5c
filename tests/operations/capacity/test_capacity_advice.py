"""What is made of each answer that Google may give about capacity."""

from typing import Any

import pytest

from cloud.machines import MACHINES
from operations.capacity import advice
from operations.capacity.advice import History, Need, Refused, Score, Window
from operations.google.clients import Clients
from tests.operations.capacity.capacity_answers import (
    CAPACITY,
    CLOSED,
    HISTORY,
    NOT_OFFERED,
    NOW,
    ZONES,
    Advice,
    days,
    score,
)
from tests.operations.google_server import EXHAUSTED, REFUSED, Fault, GoogleServer, disabled
from tests.operations.project import PROJECT

A, B, C = ZONES
NEED = Need(project=PROJECT, machine=MACHINES["a3-ultragpu-8g"], nodes=2)
HTML = Fault(code=502, body=b"<html>Bad Gateway</html>")


@pytest.fixture
def planted(google: GoogleServer) -> Advice:
    return Advice(google)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (score(0.9, A), Score(obtainability=0.9, nodes=2, uptime_s=3600)),
        (score(0.5, A, "60s", count=2), Score(obtainability=0.5, nodes=2, uptime_s=60)),
        (score(0.8, A, None), Score(obtainability=0.8, nodes=2)),
        # Fewer nodes than asked.
        (score(0.8, A, count=1), Score(obtainability=0.8, nodes=1, uptime_s=3600)),
        ({"recommendations": [{"scores": {"obtainability": 0.0}}]}, Score(obtainability=0.0, nodes=2)),
        ({}, "unknown: Google has no estimate for it"),
        ({"recommendations": [{}]}, "unknown: Google has no estimate for it"),
        (score(0.9, B), f"unknown: the answer is about {B}, which nobody asked about"),
        (CLOSED, "not open: Google answers this question for chosen projects only"),
        (NOT_OFFERED, "not offered: Google does not have it there"),
        (REFUSED, "not allowed: you lack compute.advice.capacity, which roles/compute.viewer has"),
        (HTML, "no answer: compute.advice.capacity: 502"),
        (Fault(body=b"<html>Sign in</html>"), "no answer: compute.advice.capacity: the answer from"),
        (disabled("compute.googleapis.com"), "API is off: compute.googleapis.com is not enabled"),
        (Fault(body=b'{"recommendations": [{"scores": {"obtainability": "high"}}]}'), "no answer: "),
        (Fault(body=b'{"recommendations": [{"scores": {"obtainability": null}}]}'), ""),
        (
            Fault(
                body=b'{"recommendations": [{"scores": {"obtainability": 0.7, "uptimeScore": 1}, "new": 2}]}'
            ),
            Score(obtainability=0.7, nodes=2),
        ),
    ],
)
def test_an_estimate_or_the_reason_why_there_is_none(
    answer: Any, expected: Score | str, planted: Advice, clients: Clients
) -> None:
    planted.scores["SPOT", A] = answer
    result = advice.score(clients, NEED, A, "SPOT")
    if isinstance(expected, Score):
        assert result == expected
    else:
        assert isinstance(result, Refused)
        assert f"{result.short}: {result.reason}".startswith(expected)


def test_a_question_is_about_one_machine_one_kind_one_zone_and_all_nodes(
    planted: Advice, clients: Clients
) -> None:
    advice.score(clients, NEED, A, "FLEX_START")
    (body,) = planted.bodies
    assert body == {
        "size": 2,
        "instanceProperties": {"scheduling": {"provisioningModel": "FLEX_START"}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"nodes": {"machineTypes": ["a3-ultragpu-8g"]}}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{A}"}]},
    }


def test_a_call_that_is_too_much_for_google_is_repeated(
    planted: Advice, google: GoogleServer, clients: Clients
) -> None:
    planted.scores["SPOT", A] = score(0.9, A)
    google.fail("compute.v1", CAPACITY, EXHAUSTED, times=1)
    assert advice.score(clients, NEED, A, "SPOT") == Score(obtainability=0.9, nodes=2, uptime_s=3600)


@pytest.mark.parametrize(
    ("answer", "rates", "dollars"),
    [
        (days(0.1, 0.2, 0.3), (0.1, 0.2, 0.3), 45.5),
        # Nine days, of which seven count.
        (days(0.9, 0.9, *[0.1] * 7), (0.1,) * 7, 45.5),
        ({}, (), None),
        ({"preemptionHistory": []}, (), None),
        # Today's rate changes until midnight.
        (days(0.7, until=29), (), 45.5),
        (
            {"preemptionHistory": [{"interval": {"startTime": "2026-11-28T08:00:00Z"}, "preemptionRate": 1}]},
            (),
            None,
        ),
        # Two of the days are missing.
        (
            {
                "preemptionHistory": [
                    *days(0.2, until=23)["preemptionHistory"],
                    *days(0.4, until=26)["preemptionHistory"],
                ]
            },
            (0.2, 0.4),
            None,
        ),
    ],
)
def test_a_history_counts_whole_days_and_takes_the_newest_price(
    answer: Any, rates: tuple[float, ...], dollars: float | None, planted: Advice, clients: Clients
) -> None:
    planted.histories[A] = answer
    assert advice.history(clients, NEED, A, NOW) == History(rates=rates, dollars=dollars)


def test_a_price_in_another_currency_is_not_taken_for_dollars(planted: Advice, clients: Clients) -> None:
    answer = days(0.1)
    for record in answer["priceHistory"]:
        record["listPrice"]["currencyCode"] = "EUR"
    planted.histories[A] = answer
    assert advice.history(clients, NEED, A, NOW) == History(rates=(0.1,), dollars=None)


def test_a_method_that_one_may_not_call_is_refused_alone(
    planted: Advice, google: GoogleServer, clients: Clients
) -> None:
    planted.scores["SPOT", A] = score(0.9, A)
    google.fail("compute.v1", HISTORY, REFUSED)
    assert isinstance(advice.score(clients, NEED, A, "SPOT"), Score)
    result = advice.history(clients, NEED, A, NOW)
    assert isinstance(result, Refused)
    assert (result.short, result.is_answer) == ("not allowed", False)


def test_the_calendar_has_a_first_time_in_one_zone_and_a_reason_for_the_others(
    planted: Advice, clients: Clients
) -> None:
    offer = {
        "location": f"zones/{A}",
        "startTime": "2026-12-05T00:00:00Z",
        "endTime": "2026-12-08T00:00:00Z",
        "otherLocations": {f"zones/{B}": {"status": "NO_CAPACITY"}, f"zones/{C}": {"status": "RECOMMENDED"}},
    }
    planted.calendar = {"recommendations": [{"recommendationsPerSpec": {"nodes": offer}}]}
    answers = advice.calendar(clients, NEED, "us-central1", ZONES, 3, NOW)
    assert answers[A] == Window(start="2026-12-05T00:00:00Z", end="2026-12-08T00:00:00Z")
    assert [answer.short for answer in answers.values() if isinstance(answer, Refused)] == ["none", "later"]
    (spec,) = planted.bodies[0]["futureResourcesSpecs"].values()
    assert spec["targetResources"] == {
        "specificSkuResources": {"machineType": "a3-ultragpu-8g", "instanceCount": "2"}
    }
    assert spec["timeRangeSpec"] == {
        "startTimeNotEarlierThan": "2026-11-28T20:00:00Z",
        "startTimeNotLaterThan": "2027-01-27T20:00:00Z",
        "minDuration": "259200s",
        "maxDuration": "259200s",
    }


def test_a_calendar_without_a_location_has_only_reasons(planted: Advice, clients: Clients) -> None:
    others = {
        f"zones/{A}": {"status": "NO_CAPACITY"},
        f"zones/{B}": {"status": "CONDITIONS_NOT_MET", "details": "at most 4 VMs"},
        f"zones/{C}": {"status": "NOT_SUPPORTED"},
    }
    offer = {"otherLocations": others}
    planted.calendar = {"recommendations": [{"recommendationsPerSpec": {"nodes": offer}}]}
    answers = advice.calendar(clients, NEED, "us-central1", ZONES, 3, NOW)
    reasons = [answer.reason for answer in answers.values() if isinstance(answer, Refused)]
    assert reasons == [
        "the calendar has nothing for 3 days in a row within 60 days",
        "at most 4 VMs",
        "the calendar does not have it there",
    ]


def test_tpus_are_asked_for_by_their_chips(planted: Advice, clients: Clients) -> None:
    need = Need(project=PROJECT, machine=MACHINES["ct6e-standard-4t"], nodes=4)
    advice.calendar(clients, need, "us-east5", ["us-east5-a"], 1, NOW)
    (spec,) = planted.bodies[0]["futureResourcesSpecs"].values()
    assert spec["targetResources"] == {
        "aggregateResources": {
            "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
            "acceleratorCount": "16",
            "workloadType": "BATCH",
        }
    }


def test_a_calendar_that_one_may_not_ask_names_its_own_role(planted: Advice, clients: Clients) -> None:
    planted.calendar = REFUSED
    answers = advice.calendar(clients, NEED, "us-central1", ZONES, 1, NOW)
    assert {answer.short for answer in answers.values() if isinstance(answer, Refused)} == {"not allowed"}
    (reason,) = {answer.reason for answer in answers.values() if isinstance(answer, Refused)}
    assert "roles/compute.futureReservationUser" in reason
