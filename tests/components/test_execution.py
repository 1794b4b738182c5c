"""A run of a Cloud Run job, against a real HTTP server that follows the published API."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from components.job_run import run
from components.once import OnceError
from rehearsal.cloud_run_server import CloudRunServer
from rehearsal.fake_cloud import FakeCloud
from rehearsal.google_api_server import Failure
from tests.components.fake_clock import FakeClock

NAME = "projects/my-project/locations/us-central1/jobs/tune"
DOWN = Failure(code=503, status="UNAVAILABLE", message="The service is currently unavailable.")
FORBIDDEN = Failure(code=403, status="PERMISSION_DENIED", message="run.jobs.run is denied")


@dataclass
class Bench:
    """A server with one job, and a clock."""

    server: CloudRunServer
    cloud: FakeCloud
    clock: FakeClock = field(default_factory=FakeClock)

    def run(self) -> str:
        endpoint = self.server.environment["GOOGLE_CLOUD_RUN_V2_CUSTOM_ENDPOINT"]
        return run(NAME, endpoint, self.clock)

    def failure(self) -> str:
        with pytest.raises(OnceError) as failed:
            self.run()
        return str(failed.value)

    @property
    def ends(self) -> list[str]:
        """What became of the executions, in the order in which they were started."""
        each = self.server.executions.values()
        return [one["conditions"][0]["message"] if "conditions" in one else "running" for one in each]


@pytest.fixture
def bench() -> Iterator[Bench]:
    cloud = FakeCloud()
    with CloudRunServer(cloud) as server:
        yield Bench(server, cloud)


def test_a_job_is_watched_to_its_end_and_its_log_is_named_at_once(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.server.looks = 200
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


def test_minutes_without_the_api_do_not_end_the_watch_and_an_hour_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the client library waits with between two attempts.
    monkeypatch.setattr("googleapiclient.http.time.sleep", lambda _seconds: None)
    bench.server.fail("executions.get", DOWN, times=8)
    bench.run()
    bench.server.fail("executions.get", DOWN, times=100)
    assert "is given up: The service is currently unavailable" in bench.failure()
    assert bench.ends == ["", "cancelled"]


def test_a_refusal_is_said_at_once(bench: Bench) -> None:
    bench.server.fail("jobs.get", FORBIDDEN)
    assert bench.failure() == f"{NAME} was not run: run.jobs.run is denied"
    assert bench.clock.time == 0
