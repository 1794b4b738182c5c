"""Preflight when Google does not answer, or not as it should."""

import pytest

from operations.findings import Level
from tests.neutral_stacks import NEUTRAL
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject
from tests.operations.google_server import A_PAGE, REFUSED, UNAVAILABLE, Fault, disabled
from tests.operations.planned import PROJECT


@pytest.mark.parametrize(
    ("fault", "what", "remedy"),
    [
        (REFUSED, ": 403 Permission denied on the resource.", "viewer on the project, then again"),
        (UNAVAILABLE, ": 503 The service is currently unavailable.", "try again later"),
        (A_PAGE, "is not JSON, or not all of it", "try again later"),
        (
            disabled("x.googleapis.com"),
            "x.googleapis.com is not enabled",
            "enable x.googleapis.com --project my",
        ),
    ],
)
@pytest.mark.parametrize("topic", ["APIs", "permissions", "places", "reservation", "quotas"])
def test_a_question_without_an_answer_is_a_row_and_not_a_traceback(
    topic: str, fault: Fault, what: str, remedy: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL, "capacity.type=reservation", "capacity.reservation=my-reservation")
    good.server.fail_all(fault)
    (finding,) = check(plan, topic)
    assert finding.level is Level.UNKNOWN
    assert finding.what.endswith(what) and remedy in finding.remedy


@pytest.mark.parametrize(
    ("consumer", "what", "remedy"),
    [
        (
            "123456789012",
            "compute.googleapis.com is not enabled",
            "gcloud services enable compute.googleapis",
        ),
        (PROJECT, "compute.googleapis.com is not enabled", "gcloud services enable compute.googleapis"),
        *(
            (
                other,
                f"compute.googleapis.com is not enabled in project {other}",
                f"set-quota-project {PROJECT}; with a service account's key: gcloud services enable "
                f"compute.googleapis.com --project {other}",
            )
            for other in ("4711", "of-somebody")
        ),
    ],
)
def test_an_api_that_is_off_where_the_calls_count_is_not_enabled_in_the_stacks_project(
    consumer: str, what: str, remedy: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL)
    good.server.fail("compute.v1", "compute.regions.get", disabled("compute.googleapis.com", consumer))
    (finding,) = check(plan, "places")
    assert (finding.level, finding.what) == (Level.UNKNOWN, what)
    assert remedy in finding.remedy
