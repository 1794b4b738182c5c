"""`capacity`: its rows, its proposal, and its exit status."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from components.cluster.capacity import CapacityType
from operations.capacity.command import commands
from operations.capacity.proposal import Proposal
from tests.neutral_stacks import NEUTRAL
from tests.operations.capacity.capacity_answers import (
    CALENDAR,
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
from tests.operations.conftest import Command, CommandResult
from tests.operations.good_project import GoodProject
from tests.operations.google_server import REFUSED, UNAVAILABLE, Fault, GoogleServer
from tests.operations.planned import planned, planned_once

A, B, C = ZONES
RESERVATIONS = "compute.reservations.aggregatedList"
RESERVING = ("capacity.type=reservation", "capacity.reservation=projects/owner-project/reservations/mine")
Ask = Callable[..., CommandResult]


@pytest.fixture
def planted(google: GoogleServer, good: GoodProject, monkeypatch: pytest.MonkeyPatch) -> Advice:
    good.plan(NEUTRAL)
    monkeypatch.setattr("operations.capacity.command.current_time", lambda: NOW)
    google.plant("compute.v1", RESERVATIONS, {})
    return Advice(google)


@pytest.fixture
def ask(google: GoogleServer, planted: Advice, command: Command) -> Ask:
    def ask(*words: str, settings: tuple[str, ...] = ()) -> CommandResult:
        with planned_once(*settings):
            return command("capacity", "--stack", NEUTRAL, "--endpoint", google.address, *words)

    return ask


def rows_of(ran: CommandResult) -> dict[str, dict[str, Any]]:
    return {row["zone"]: row for row in json.loads(ran.out)["rows"]}


def test_each_zone_is_a_row_and_each_kind_of_capacity_a_call(
    ask: Ask, planted: Advice, google: GoogleServer
) -> None:
    for number, zone in enumerate(ZONES):
        planted.scores["SPOT", zone] = score(0.1 + number / 10, zone)
        planted.scores["FLEX_START", zone] = score(0.2 + number / 10, zone, None)
        planted.histories[zone] = days(0.1)
    ran = ask("--json")
    rows = rows_of(ran)
    assert [*rows] == [*ZONES]
    assert [row["spot"]["obtainability"] for row in rows.values()] == pytest.approx([0.1, 0.2, 0.3])
    assert [row["flex_start"]["obtainability"] for row in rows.values()] == pytest.approx([0.2, 0.3, 0.4])
    assert {row["nodes"] for row in rows.values()} == {2}
    # Spot, flex-start and on demand, and the history. Google does not book L4.
    calls = [len(google.called(method)) for method in (CAPACITY, HISTORY, CALENDAR)]
    assert calls == [9, 3, 0]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({("SPOT", A): score(0.7, A)}, 0),
        ({("SPOT", A): score(0.69, A)}, 1),
        ({("FLEX_START", C): score(0.9, C, None)}, 0),
        ({("STANDARD", B): score(0.8, B, None)}, 0),
        # Spot that lives for a minute, and fewer nodes than asked.
        ({("SPOT", A): score(0.9, A, "60s")}, 1),
        ({("SPOT", A): score(0.9, A, count=1)}, 1),
        ({}, 1),
    ],
)
def test_the_status_says_whether_nodes_can_probably_be_had(
    answers: dict[tuple[str, str], Any], status: int, ask: Ask, planted: Advice
) -> None:
    planted.scores = answers
    assert ask().status == status


def test_the_status_is_2_if_nobody_could_say(ask: Ask, google: GoogleServer) -> None:
    for method in (CAPACITY, HISTORY):
        google.fail("compute.v1", method, REFUSED)
    google.fail("compute.v1", RESERVATIONS, REFUSED)
    ran = ask()
    assert ran.status == 2
    assert "you lack compute.advice.capacity" in ran.out


def test_zones_are_those_of_the_catalogue_if_google_does_not_list_them(
    ask: Ask, planted: Advice, google: GoogleServer
) -> None:
    google.fail("compute.v1", "compute.machineTypes.aggregatedList", REFUSED)
    planted.scores["SPOT", C] = score(0.9, C)
    ran = ask("--json", "--region", "us-central1", "--region", "us-middle1")
    rows = rows_of(ran)
    assert [*rows] == [*ZONES, "us-middle1"]
    assert rows["us-middle1"]["spot"]["short"] == "no answer"


def test_free_machines_of_a_reservation_are_enough_by_themselves(
    ask: Ask, google: GoogleServer, good: GoodProject
) -> None:
    for method in (CAPACITY, HISTORY):
        google.fail("compute.v1", method, REFUSED)
    good.reservation(machine="g2-standard-12", count=3, used=1)
    ran = ask("--json")
    assert ran.status == 0
    (proposal,) = json.loads(ran.out)["proposals"]
    assert (proposal["kinds"], proposal["reservation"]) == (["reservation"], "my-reservation")
    good.reservation(machine="g2-standard-12", count=3, used=2)
    assert ask().status == 1


def test_a_reservation_that_another_project_shares_is_named_by_its_path(
    ask: Ask, planted: Advice, good: GoodProject
) -> None:
    good.reservation(project="owner-project", machine="g2-standard-12", count=3, used=0)
    (proposal,) = json.loads(ask("--json", settings=RESERVING).out)["proposals"]
    assert proposal["reservation"] == "projects/owner-project/reservations/my-reservation"


def test_a_reservation_of_a_project_that_one_may_not_read_is_a_refusal(
    ask: Ask, google: GoogleServer
) -> None:
    google.fail("compute.v1", RESERVATIONS, REFUSED)
    ran = ask("--json", settings=RESERVING)
    assert ran.status == 1
    answer = rows_of(ran)[A]["reservation"]
    assert answer["short"] == "not allowed" and "owner-project" in answer["reason"]


def test_on_demand_may_be_closed_while_spot_answers(ask: Ask, planted: Advice) -> None:
    for zone in ZONES:
        planted.scores["STANDARD", zone] = CLOSED
        planted.scores["SPOT", zone] = score(0.9, zone)
    ran = ask()
    assert ran.status == 0
    assert len(re.findall(r"not open \(\d\)", " ".join(ran.out.split()))) == 3
    assert ran.out.count("for chosen projects only") == 1


def test_a_zone_without_the_machine_is_never_proposed(ask: Ask, planted: Advice) -> None:
    planted.scores["SPOT", C] = NOT_OFFERED
    planted.scores["SPOT", A] = score(0.5, A)
    ran = ask("--json")
    assert rows_of(ran)[C]["spot"]["short"] == "not offered"
    assert json.loads(ran.out)["proposals"][0]["zone"] == A


def test_one_question_without_an_answer_leaves_the_others(
    ask: Ask, planted: Advice, google: GoogleServer
) -> None:
    for zone in ZONES:
        planted.scores["SPOT", zone] = score(0.9, zone)
    planted.scores["FLEX_START", B] = UNAVAILABLE
    ran = ask("--json")
    assert ran.status == 0
    assert rows_of(ran)[B]["flex_start"]["short"] == "no answer"
    assert rows_of(ran)[B]["spot"]["obtainability"] == 0.9


def test_the_cheaper_zone_is_taken_of_two_with_the_same_score(ask: Ask, planted: Advice) -> None:
    for zone in ZONES:
        planted.scores["SPOT", zone] = score(0.8, zone)
        planted.histories[zone] = days(0.1)
    cheap = days(0.1)
    cheap["priceHistory"][0]["listPrice"]["units"] = "40"
    planted.histories[C] = cheap
    assert json.loads(ask("--json").out)["proposals"][0]["zone"] == C


@pytest.mark.parametrize(
    ("spot", "flex", "history", "kinds"),
    [
        (0.9, 0.75, {}, ["flexStart", "spot"]),
        (0.9, 0.65, {}, ["spot", "flexStart"]),
        (0.9, 0.3, {}, ["spot"]),
        (0.9, 0.5, days(0.6, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1), ["flexStart"]),
        (0.9, 0.5, days(0.6, 0.6, 0.6, 0.1, 0.1, 0.1, 0.1), ["spot", "flexStart"]),
        (0.3, 0.3, {}, []),
    ],
)
def test_the_order_follows_the_scores_but_flex_start_stays_longer(
    spot: float, flex: float, history: Any, kinds: list[str], ask: Ask, planted: Advice
) -> None:
    planted.scores = {("SPOT", A): score(spot, A), ("FLEX_START", A): score(flex, A, None)}
    planted.histories[A] = history
    proposals = json.loads(ask("--json").out)["proposals"]
    assert [kind for proposal in proposals for kind in proposal["kinds"]] == kinds


def test_other_machines_regions_and_numbers_can_be_asked_about(
    ask: Ask, planted: Advice, google: GoogleServer
) -> None:
    offer = {"location": f"zones/{A}", "startTime": "2026-12-05T00:00:00Z"}
    planted.calendar = {"recommendations": [{"recommendationsPerSpec": {"nodes": offer}}]}
    words = ("--machine", "a3-ultragpu-8g", "--nodes", "4", "--region", "us-central1", "--region", "us-east4")
    ran = ask(*words, "--json")
    rows = rows_of(ran)
    assert [*rows] == [*ZONES, "us-east4"]
    assert {row["nodes"] for row in rows.values()} == {4}
    assert rows[A]["calendar"]["start"] == "2026-12-05T00:00:00Z"
    assert rows[A]["on_demand"]["short"] == "not sold"
    assert rows["us-east4"]["spot"]["short"] == "not offered"
    assert len(google.called(CALENDAR)) == 1


def test_of_tpus_only_the_calendar_is_asked(ask: Ask, google: GoogleServer) -> None:
    ran = ask("--machine", "ct6e-standard-4t", "--nodes", "4")
    assert ran.status == 1
    assert "Google tells nothing about TPUs but the calendar" in " ".join(ran.out.split())
    assert not google.called(CAPACITY) and not google.called(HISTORY)


def test_the_quota_is_told_beside_the_scores(ask: Ask, planted: Advice) -> None:
    planted.scores["SPOT", A] = score(0.9, A)
    out = " ".join(ask("--nodes", "100").out.split())
    assert "Quota of g2-standard-12 in us-central1: compute.googleapis.com/preemptible_nvidia_l4_gpus" in out
    assert "100 needed, limit 8" in out
    assert "Quota of" not in ask().out


def test_nothing_is_changed_and_the_time_of_the_questions_is_told(ask: Ask, google: GoogleServer) -> None:
    ran = ask()
    assert "Nothing was changed." in ran.out
    assert "2026-11-28 20:00 UTC" in " ".join(ran.out.split())
    verbs = {call.method.rpartition(".")[2] for call in google.calls}
    assert verbs <= {"get", "list", "aggregatedList", "capacity", "capacityHistory"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--machine", "a9-giga-1g"),
            "a9-giga-1g is no machine with accelerators; known: a2-highgpu",
        ),
        (("--nodes", "0"), "--nodes 0: give a number from 1 on"),
        (("--days", "91"), "--days 91: give a number from 1 on, for days up to 90"),
    ],
)
def test_a_wrong_word_is_refused_before_google_is_asked(
    words: tuple[str, ...], message: str, ask: Ask, google: GoogleServer
) -> None:
    ran = ask(*words)
    assert ran.status == 2
    assert message in ran.err
    assert google.calls == []


def test_an_answer_that_is_not_json_is_a_row(ask: Ask, planted: Advice) -> None:
    planted.scores["SPOT", A] = Fault(code=502, body=b"<html>Bad Gateway</html>")
    assert rows_of(ask("--json"))[A]["spot"]["short"] == "no answer"


def test_a_proposal_is_commands_of_keys_that_the_stack_has() -> None:
    proposal = Proposal(machine="g2-standard-12", kinds=(CapacityType.FLEX_START, CapacityType.SPOT), zone=C)
    assert [*commands(planned(NEUTRAL), proposal)] == [
        f"pulumi config set capacity.type flexStart --stack {NEUTRAL}",
        f"pulumi config set zones {C} --stack {NEUTRAL}",
    ]
