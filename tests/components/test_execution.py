"""A run of a Cloud Run job, against a real HTTP server that follows the published API."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import RefreshError, TransportError

from cloud.credentials import NO_SETTINGS
from components.base.once import OnceError
from components.execution.job import run
from rehearsal.fakes.cloud import FakeCloud
from tests.components.fake_clock import FakeClock
from tests.rehearsal.scripted_google import ErrorAnswer, SlowCloudRun

NAME = "projects/my-project/locations/us-central1/jobs/tune"
DOWN = ErrorAnswer(code=503, status="UNAVAILABLE", message="The service is currently unavailable.")
FORBIDDEN = ErrorAnswer(code=403, status="PERMISSION_DENIED", message="run.jobs.run is denied")


@dataclass
class Bench:
    """A server with one job, and a clock."""

    server: SlowCloudRun
    cloud: FakeCloud
    clock: FakeClock = field(default_factory=FakeClock)

    def run(self) -> str:
        endpoint = self.server.configuration["gcp:cloudRunV2CustomEndpoint"]
        return run(NAME, endpoint, NO_SETTINGS, self.clock)

    def failure(self) -> str:
        with pytest.raises(OnceError) as failed:
            self.run()
        return str(failed.value)

    @property
    def ends(self) -> list[str]:
        """What became of the executions, in the order in which they were started."""
        return [outcome_of(execution) for execution in self.server.executions.values()]


def outcome_of(execution: Mapping[str, Any]) -> str:
    """What became of an execution, in Google's words."""
    return execution["conditions"][0]["message"] if "conditions" in execution else "running"


@pytest.fixture
def bench() -> Iterator[Bench]:
    cloud = FakeCloud()
    with SlowCloudRun(cloud) as server:
        yield Bench(server, cloud)


def test_a_job_is_watched_to_its_end_and_its_log_is_named_at_once(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.server.looks = 400
    name = bench.run()
    (execution,) = bench.server.executions.values()
    assert name == execution["name"]
    assert execution["logUri"] in capsys.readouterr().out
    assert bench.clock.time > 30 * 60


def test_a_failed_execution_says_why_where_its_log_is_and_what_to_do(bench: Bench) -> None:
    bench.cloud.outcome = "Failed"
    failure = bench.failure()
    (execution,) = bench.server.executions.values()
    for part in (
        "Task failed with exit code 1",
        execution["logUri"],
        "`pulumi up` runs the job again",
    ):
        assert part in failure


def test_an_interrupted_up_leaves_no_execution_behind(bench: Bench) -> None:
    bench.server.looks, bench.clock.ends = 999, 60.0
    assert "is given up: interrupted" in bench.failure()
    assert bench.ends == ["cancelled"]


def test_one_that_an_up_left_running_is_ended_before_another_starts(bench: Bench) -> None:
    bench.server.looks = 1
    bench.server.fail("jobs.run", replace(DOWN, after=True))
    assert "was not run: The service is currently unavailable" in bench.failure()
    assert bench.ends == ["running"]
    bench.run()
    assert bench.ends == ["cancelled", ""]


def test_minutes_without_the_api_do_not_end_the_watch_and_an_hour_does(bench: Bench) -> None:
    bench.server.fail("executions.get", DOWN, times=8)
    bench.run()
    bench.server.fail("executions.get", DOWN, times=100)
    assert "is given up: The service is currently unavailable" in bench.failure()
    assert bench.ends == ["", "cancelled"]


def no_new_token(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> None:
    """The watch of an execution finds that its token cannot be renewed, a few times."""
    errors = [error] * times

    def fails(_self: object, _request: object, method: str, url: str, _headers: object) -> None:
        if method == "GET" and "/executions/" in url and errors:
            raise errors.pop()

    monkeypatch.setattr(AnonymousCredentials, "before_request", fails)


# How the ways to a token end without a network: gcloud's and a key's, a virtual machine's, a busy server's.
NO_WAY = TransportError("Failed to establish a new connection")
ON_A_MACHINE = RefreshError(NO_WAY)
ON_A_MACHINE.__cause__ = NO_WAY


@pytest.mark.parametrize("error", [NO_WAY, ON_A_MACHINE, RefreshError("internal_failure", retryable=True)])
def test_a_token_that_cannot_be_fetched_for_minutes_does_not_end_the_watch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    no_new_token(monkeypatch, error, 8)
    bench.run()
    assert bench.ends == [""]
    assert bench.clock.time > 2 * 60


def test_credentials_that_were_revoked_end_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    no_new_token(monkeypatch, RefreshError("invalid_grant: Token has been revoked"), 1)
    failure = bench.failure()
    assert "Token has been revoked; run `gcloud auth application-default login`" in failure
    assert "it has been cancelled" in failure


def test_a_refusal_is_said_at_once(bench: Bench) -> None:
    bench.server.fail("jobs.get", FORBIDDEN)
    assert bench.failure() == f"{NAME} was not run: run.jobs.run is denied"
    assert bench.clock.time == 0
