"""Preflight looks at the run that a stack serves, as `up` will."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operations.checks.served_run import check_served_run
from operations.findings import Level
from operations.google.clients import Clients
from rehearsal.fakes.finished_run import write_run
from rehearsal.stand_ins.bucket import Buckets
from tests.neutral_stacks import NEUTRAL
from tests.operations.google_buckets import GoogleBuckets
from tests.operations.planned import PROJECT, planned

RUN = "rehearsal-runs/gemma-3-4b-sql-0a1b2c3d"
NAMED = {"llm-stacks:servedRun": f"gs://{RUN}"}


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    write_run(tmp_path / RUN)
    with GoogleBuckets(tmp_path) as buckets:
        yield buckets


def look(buckets: Buckets, **configuration: str) -> list[tuple[Level, str, str]]:
    """What is found of the run in the plan of a stack that serves one, with this configuration."""
    plan = replace(planned(NEUTRAL, f"servedRun=gs://{RUN}"), configuration=configuration)
    findings = check_served_run(plan, Clients(PROJECT, buckets.address))
    return [(finding.level, finding.what, finding.remedy) for finding in findings]


def test_a_run_that_can_be_served_is_said_to_be_complete(buckets: Buckets) -> None:
    (finding,) = look(buckets, **NAMED)
    assert finding == (Level.FINE, f"run gs://{RUN} is complete, and its model can be served", "")


def test_an_unfinished_run_is_a_problem_before_up(buckets: Buckets) -> None:
    (buckets.folder / RUN / "COMPLETE.json").unlink()
    ((level, what, remedy),) = look(buckets, **NAMED)
    assert (level, what) == (Level.PROBLEM, f"run gs://{RUN} is not finished")
    assert "pulumi up" in remedy


def test_a_run_in_a_bucket_that_the_plan_does_not_know_yet_is_left_to_up(buckets: Buckets) -> None:
    assert look(buckets) == []
