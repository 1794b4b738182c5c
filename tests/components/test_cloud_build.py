"""A build in Cloud Build, against a real HTTP server that follows the published API."""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import google.auth
import grpc
import pulumi.dynamic.dynamic as sdk
import pytest
from google.auth.exceptions import DefaultCredentialsError
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from cloud.credentials import NO_SETTINGS
from components.base.calls import OUTAGE, CallError, Calls
from components.base.clock import Clock, Interrupted
from components.base.once import OnceError
from components.cloud_build import CloudBuildProvider
from components.cloud_build.build import BuildRun
from rehearsal.fakes.provider_server import to_struct
from tests.components.fake_clock import FakeClock
from tests.rehearsal.scripted_google import BuildLifecycle, ErrorAnswer, ScriptedCloudBuild

ROOT = Path(__file__).parents[2]
IMAGE = "us-central1-docker.pkg.dev/my-project/images/finetune"
BUILDER = f"gcr.io/cloud-builders/docker@sha256:{'0' * 64}"
ACCOUNT = "projects/my-project/serviceAccounts/builder@my-project.iam.gserviceaccount.com"
PROPERTIES = {
    "project": "my-project",
    "location": "us-central1",
    "image": f"{IMAGE}:0123abcd",
    "repositoryCreated": "2026-01-01T00:00:00Z",
    "sourceBucket": "source",
    "sourceObject": "finetune-0123abcd.tar.gz",
    # Numbers come as the engine sends them.
    "sourceGeneration": 17.0,
    "dockerBuilder": BUILDER,
    "serviceAccount": ACCOUNT,
}
TAGGED = PROPERTIES["image"]
FORBIDDEN = ErrorAnswer(code=403, status="PERMISSION_DENIED", message="The caller does not have permission")
MISSING = ErrorAnswer(code=404, status="NOT_FOUND", message="Requested entity was not found.")
UNKNOWN_ACCOUNT = ErrorAnswer(
    code=400, status="INVALID_ARGUMENT", message="service account builder@ not found"
)
WRONG = ErrorAnswer(code=400, status="INVALID_ARGUMENT", message="invalid image name")
DOWN = ErrorAnswer(code=503, status="UNAVAILABLE", message="The service is currently unavailable.")
QUOTA = ErrorAnswer(code=429, status="RESOURCE_EXHAUSTED", message="Quota exceeded for 'Build requests'")
REGION = ErrorAnswer(
    code=400,
    status="FAILED_PRECONDITION",
    message="due to quota restrictions, cannot run builds in this region",
)
# What a build ends with whose account may not read the source yet.
EARLY = BuildLifecycle(states=["WORKING", "FAILURE"], failure="FETCH_SOURCE_FAILED", detail="access denied")


@dataclass
class Bench:
    """A server and a clock."""

    server: ScriptedCloudBuild
    clock: FakeClock = field(default_factory=FakeClock)

    def run(self, **properties: str) -> dict[str, str]:
        configuration = self.server.configuration
        servers = {
            "cloud_build": configuration["gcp:cloudBuildCustomEndpoint"],
            "logging": configuration["gcp:loggingCustomEndpoint"],
        }
        return BuildRun({**PROPERTIES, **properties}, servers, NO_SETTINGS, self.clock).run()

    def failure(self) -> str:
        with pytest.raises(OnceError) as failed:
            self.run()
        return str(failed.value)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ScriptedCloudBuild() as server:
        yield Bench(server)


def test_the_build_is_asked_for_as_cloud_build_wants_it_and_gives_the_image_by_digest(bench: Bench) -> None:
    built = bench.run()
    [build] = bench.server.builds
    digest = build["results"]["images"][0]["digest"]
    assert built == {"uri": f"{IMAGE}@{digest}", "build": build["id"], "log": build["logUrl"]}
    source = {"bucket": "source", "object": "finetune-0123abcd.tar.gz", "generation": "17"}
    options = {"logging": "CLOUD_LOGGING_ONLY", "machineType": "E2_HIGHCPU_8", "diskSizeGb": "100"}
    wanted = {"images": [TAGGED], "serviceAccount": ACCOUNT, "timeout": "3600s"}
    assert {**wanted, "source": {"storageSource": source}}.items() <= build.items()
    assert options.items() <= build["options"].items()
    assert [step["name"] for step in build["steps"]] == [BUILDER]


def test_a_private_pool_builds_on_its_own_machines(bench: Bench) -> None:
    pool = "projects/builders/locations/us-central1/workerPools/closed"
    bench.run(pool=pool)
    [build] = bench.server.builds
    assert build["options"]["pool"] == {"name": pool}
    # Cloud Build refuses these beside a pool.
    assert not {"machineType", "diskSizeGb"} & build["options"].keys()


def test_another_base_goes_into_the_build(bench: Bench) -> None:
    bench.run(base="mirror.example/python@sha256:0")
    bench.run(base="")
    steps = [build["steps"][0]["args"] for build in bench.server.builds]
    assert steps[0] == ["build", "--tag", TAGGED, "--build-arg", "BASE=mirror.example/python@sha256:0", "."]
    assert steps[1] == ["build", "--tag", TAGGED, "."]


def test_a_build_without_signed_provenance_is_no_success(bench: Bench) -> None:
    """The images that Cloud Build pushes itself have a provenance. Those of a step have none."""
    bench.run()
    [build] = bench.server.builds
    assert build["options"]["requestedVerifyOption"] == "VERIFIED"
    assert build["images"] == [TAGGED]


def test_progress_is_printed_when_something_changes(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.server.next_build(BuildLifecycle(states=["PENDING", "QUEUED", *["WORKING"] * 30, "SUCCESS"]))
    bench.run()
    started, *states = (line.removeprefix(f"{TAGGED}: ") for line in capsys.readouterr().out.splitlines())
    assert started.endswith(f"started, log {bench.server.builds[0]['logUrl']}")
    assert states == ["queued", "working", "success"]


def test_a_failure_names_the_step_the_end_of_the_log_and_its_address(bench: Bench) -> None:
    log = [f"line {number}" for number in range(1, 41)]
    bench.server.next_build(
        BuildLifecycle(
            states=["QUEUED", "WORKING", "FAILURE"],
            exit_code=2,
            detail="Build step failed",
            failure="USER_BUILD_STEP",
            log=log,
        )
    )
    message = bench.failure()
    assert f"{TAGGED} was not built" in message
    assert "step 1 of 1, docker build: FAILURE, exit code 2" in message
    assert "| line 40\n" in message
    assert "| line 21\n" in message
    assert "line 20\n" not in message
    assert bench.server.builds[0]["logUrl"] in message
    assert message.count("Build step failed") == 1


def test_a_failure_is_reported_even_if_its_log_cannot_be_read(bench: Bench) -> None:
    bench.server.next_build(BuildLifecycle(states=["FAILURE"], detail="Build step failed"))
    bench.server.fail("entries.list", FORBIDDEN, times=9)
    assert "Build step failed" in bench.failure()


@pytest.mark.parametrize("status", ["TIMEOUT", "CANCELLED", "INTERNAL_ERROR", "EXPIRED"])
def test_every_other_end_is_a_failure_too(bench: Bench, status: str) -> None:
    bench.server.next_build(BuildLifecycle(states=["WORKING", status]))
    assert f"ended as {status}" in bench.failure()
    assert bench.server.calls.count("builds.create") == 1


def test_a_success_without_a_digest_is_no_image(bench: Bench) -> None:
    bench.server.next_build(BuildLifecycle(digests=False))
    assert "names no digest" in bench.failure()


@pytest.mark.parametrize(
    ("ends", "failure", "reason"),
    [
        (60, None, "interrupted; build"),
        (float("inf"), DOWN, "The service is currently unavailable"),
    ],
)
def test_a_build_that_nobody_waits_for_any_more_is_cancelled(
    bench: Bench, ends: float, failure: ErrorAnswer | None, reason: str
) -> None:
    bench.server.next_build(BuildLifecycle(states=["QUEUED", "WORKING"]))
    if failure:
        bench.server.fail("builds.get", failure, times=999)
    bench.clock.ends = ends
    message = bench.failure()
    assert reason in message
    assert "has been cancelled" in message
    assert bench.server.cancelled.is_set()


def test_an_interrupt_between_two_attempts_starts_nothing_more(bench: Bench) -> None:
    bench.server.fail("builds.create", FORBIDDEN, times=9)
    bench.clock.ends = 5
    assert bench.failure() == f"{TAGGED} was not built: interrupted"
    assert bench.server.builds == []


@pytest.mark.parametrize(
    ("failure", "remedy", "earliest_s", "latest_s"),
    [
        (QUOTA, "a quota of Cloud Build is used up", 0, 60),
        (REGION, "`pulumi config set buildRegion us-central1`", 0, 0),
        (FORBIDDEN, "roles/iam.serviceAccountUser", 420, 480),
        (DOWN, "https://status.cloud.google.com", 240, 300),
        (WRONG, "", 0, 0),
    ],
)
def test_what_does_not_pass_is_reported_in_time_with_its_remedy(
    bench: Bench, failure: ErrorAnswer, remedy: str, earliest_s: int, latest_s: int
) -> None:
    bench.server.fail("builds.create", failure, times=99)
    message = bench.failure()
    assert failure.message in message
    assert remedy in message
    assert earliest_s <= bench.clock.time <= latest_s


def test_calls_that_take_long_count_as_time_that_was_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(*_: object) -> None:
        bench.clock.time += 30
        raise CallError("timed out", OUTAGE)

    monkeypatch.setattr(Calls, "send", no_answer)
    assert "tried for 5 minutes" in bench.failure()
    assert bench.clock.time <= 5 * 60


def test_a_project_that_is_not_ready_yet_is_asked_again(bench: Bench) -> None:
    for failure in (FORBIDDEN, FORBIDDEN, MISSING, UNKNOWN_ACCOUNT):
        bench.server.fail("builds.create", failure)
    assert bench.run()["uri"].startswith(f"{IMAGE}@sha256:")
    assert bench.server.calls.count("builds.create") == 5
    assert len(bench.server.builds) == 1


@pytest.mark.parametrize("times", [2, 99])
def test_a_source_that_is_not_readable_yet_is_fetched_by_another_build(bench: Bench, times: int) -> None:
    for _ in range(times):
        bench.server.next_build(EARLY)
    if times == 2:
        bench.run()
        assert bench.server.calls.count("builds.create") == 3
    else:
        assert "access denied" in bench.failure()
        assert bench.clock.time <= 9 * 60


def test_an_outage_is_waited_for(bench: Bench) -> None:
    bench.server.fail("builds.create", DOWN, times=3)
    bench.server.fail("builds.get", DOWN, times=3)
    bench.run()
    assert len(bench.server.builds) == 1


def test_a_creation_whose_answer_is_lost_is_found_again(bench: Bench) -> None:
    bench.server.fail("builds.create", replace(DOWN, after=True))
    built = bench.run()
    assert [build["id"] for build in bench.server.builds] == [built["build"]]


def test_without_credentials_the_message_says_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: Any) -> None:
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", none)
    with pytest.raises(OnceError, match="gcloud auth application-default login"):
        BuildRun(PROPERTIES, {"cloud_build": None, "logging": None}, NO_SETTINGS, FakeClock())


def test_plain_http_never_carries_a_token(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(**_: Any) -> None:
        raise AssertionError("credentials were looked up")

    monkeypatch.setattr(google.auth, "default", asked)
    bench.run()


@pytest.mark.parametrize(
    ("news", "replaces"),
    [
        ({"image": f"{IMAGE}:another"}, ["image"]),
        ({"repositoryCreated": "2026-02-02T00:00:00Z"}, ["repositoryCreated"]),
        ({"location": "europe-west1"}, []),
        ({"pool": "projects/builders/locations/us-central1/workerPools/closed"}, []),
        ({"sourceGeneration": 18.0}, []),
        ({"dockerBuilder": "gcr.io/cloud-builders/docker@sha256:0"}, []),
        ({}, []),
    ],
)
def test_only_what_makes_another_image_builds_again(news: dict[str, Any], replaces: list[str]) -> None:
    olds = {**PROPERTIES, "uri": "uri", "build": "id", "log": "log"}
    difference = CloudBuildProvider().diff("id", olds, {**PROPERTIES, **news})
    assert difference.changes == bool(replaces)
    assert difference.replaces == replaces


def test_the_state_holds_the_provider_by_its_name_alone() -> None:
    pickled = base64.b64decode(sdk.serialize_provider(CloudBuildProvider()))
    # Another name, and a stack from before could not be destroyed.
    assert b"components.cloud_build\x94" in pickled
    assert len(pickled) < 100


def test_the_end_of_the_engine_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(os, "getppid", lambda: -1)
    with pytest.raises(Interrupted):
        clock.wait(3600)


def test_interrupting_the_provider_process_cancels_the_build(bench: Bench) -> None:
    bench.server.next_build(BuildLifecycle(states=["WORKING"]))
    # Programs in a shell's background ignore SIGINT, and their children inherit that.
    command = ["env", "--default-signal=INT", sys.executable, "-u", "-m", "pulumi.dynamic", "127.0.0.1:0"]
    configuration = to_struct(bench.server.configuration)
    properties = to_struct({**PROPERTIES, "__provider": sdk.serialize_provider(CloudBuildProvider())})
    request = provider_pb2.CreateRequest(properties=properties)
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout
        try:
            with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                provider = provider_pb2_grpc.ResourceProviderStub(channel)
                provider.Configure(provider_pb2.ConfigureRequest(args=configuration))
                creation = provider.Create.future(request, timeout=60)
                assert bench.server.created.wait(30)
                process.send_signal(signal.SIGINT)
                assert bench.server.cancelled.wait(30)
                assert creation.exception()
                assert process.wait(30) == 0
        finally:
            process.kill()
