"""One run of a build: started as soon as the project is ready for it, watched, cancelled when need be."""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from google.cloud.devtools.cloudbuild_v1.types import (
    Build,
    BuildOptions,
    BuildStep,
    Source,
    StorageSource,
)

from components.build_api import CALL_ERRORS, BuildApi
from components.build_clock import Clock, Interrupted
from components.build_trouble import Kind, Trouble
from components.cloud_build import BuildError

# How long a build may wait for a machine, in seconds.
_QUEUE_S: Final = 1800
# Beyond its own limits, before a build is taken for stuck.
_MARGIN_S: Final = 300
# Looks at a build: often at first, when it fails for simple reasons, then at a steady pace.
_FIRST_LOOK_S: Final = 0.5
_POLL_S: Final = 5.0
_REPORT_S: Final = 60.0
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 30.0
# The end of a log arrives some seconds after the end of the build.
_LOG_READS: Final = 4

# A grant that IAM does not know everywhere yet ends a build that has started, before it has done anything.
_TOO_EARLY: Final = (
    Build.FailureInfo.FailureType.FETCH_SOURCE_FAILED,
    Build.FailureInfo.FailureType.LOGGING_FAILURE,
)
_RUNNING: Final = (Build.Status.PENDING, Build.Status.QUEUED, Build.Status.WORKING)


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What is to be built; the fields as in `components.cloud_build.CloudBuildArgs`."""

    project: str
    location: str
    image: str
    source_bucket: str
    source_object: str
    source_generation: int
    service_account: str
    machine_type: str
    disk_gb: int
    timeout_s: int

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "BuildRequest":
        """Reads the resource's inputs; the engine's numbers have no integers."""
        return cls(
            project=properties["project"],
            location=properties["location"],
            image=properties["image"],
            source_bucket=properties["sourceBucket"],
            source_object=properties["sourceObject"],
            source_generation=int(properties["sourceGeneration"]),
            service_account=properties["serviceAccount"],
            machine_type=properties["machineType"],
            disk_gb=int(properties["diskGb"]),
            timeout_s=int(properties["timeoutS"]),
        )

    def build(self, tag: str) -> Build:
        """The build in Cloud Build's words.

        Args:
            tag: Finds the build again when the answer to its creation is lost.
        """
        return Build(
            source=Source(
                storage_source=StorageSource(
                    bucket=self.source_bucket,
                    object_=self.source_object,
                    generation=self.source_generation,
                )
            ),
            steps=[
                BuildStep(
                    id="docker build",
                    name="gcr.io/cloud-builders/docker",
                    args=["build", "--tag", self.image, "."],
                    env=["DOCKER_BUILDKIT=1"],
                )
            ],
            images=[self.image],
            service_account=self.service_account,
            timeout=timedelta(seconds=self.timeout_s),
            queue_ttl=timedelta(seconds=_QUEUE_S),
            tags=[tag],
            options=BuildOptions(
                # The other places for a log ask for more than the right to write entries.
                logging=BuildOptions.LoggingMode.CLOUD_LOGGING_ONLY,
                machine_type=BuildOptions.MachineType[self.machine_type],
                disk_size_gb=self.disk_gb,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Built:
    """What came out.

    Args:
        uri: The image by digest.
        build_id: Id of the build.
        log: Address of its log.
    """

    uri: str
    build_id: str
    log: str


class BuildRun:
    """A build from the request to the image.

    Args:
        api: The APIs.
        request: What is to be built.
        clock: What time it is and how to wait.
        log: Told how far it is, a line at a time.
    """

    def __init__(
        self,
        api: BuildApi,
        request: BuildRequest,
        clock: Clock | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._api = api
        self._request = request
        self._clock = clock or Clock()
        self._log = log or _print
        self._began = self._clock.now()

    def run(self) -> Built:
        """Builds.

        Raises:
            BuildError: Without an image; a build that was still running has been cancelled.
        """
        pause = _FIRST_PAUSE_S
        while True:
            build = self._watched(self._start())
            if build.status == Build.Status.SUCCESS:
                return self._built(build)
            trouble = Trouble(Kind.PROPAGATION, build.failure_info.detail)
            if build.failure_info.type_ not in _TOO_EARLY or self._late(trouble, self._began, pause):
                raise BuildError(self._failure(build))
            self._log(f"{self._request.image}: {trouble.text}; a new grant may need minutes, trying again")
            pause = self._rest(pause)

    def _start(self) -> Build:
        tag = f"request-{uuid.uuid4().hex}"
        build, began, pause, lost = self._request.build(tag), self._clock.now(), _FIRST_PAUSE_S, False
        while True:
            try:
                # An answer that got lost may have been a yes.
                return (self._api.find(tag) if lost else None) or self._api.create(build)
            except CALL_ERRORS as error:
                trouble = Trouble.of(error)
            if self._late(trouble, began, pause):
                raise BuildError(f"{self._request.image} was not built: {trouble.explanation()}")
            lost = lost or trouble.kind is Kind.OUTAGE
            self._log(f"{self._request.image}: {trouble.text}; trying again in {pause:.0f} s")
            pause = self._rest(pause)

    def _rest(self, pause: float) -> float:
        """Pauses while no build runs; returns the next pause."""
        try:
            self._clock.pause(pause)
        except Interrupted:
            raise BuildError(f"{self._request.image} was not built: interrupted") from None
        return min(2 * pause, _LONGEST_PAUSE_S)

    def _late(self, trouble: Trouble, began: float, pause: float) -> bool:
        return self._clock.now() - began + pause > trouble.kind.patience_s

    def _watched(self, build: Build) -> Build:
        """The build once it has ended; whatever else happens, it does not go on running."""
        self._log(f"{self._request.image}: build {build.id} started, log {build.log_url}")
        try:
            return self._ended(build)
        except Interrupted:
            what = "interrupted"
        except CALL_ERRORS as error:
            what = Trouble.of(error).explanation()
        except TimeoutError:
            what = f"it had not ended after {_minutes(self._limit_s)}"
        raise BuildError(f"{self._request.image} was not built: {what}; {self._cancelled(build)}")

    def _ended(self, build: Build) -> Build:
        began = heard = reported = self._clock.now()
        status, pause = Build.Status.STATUS_UNKNOWN, _FIRST_LOOK_S
        while build.status in _RUNNING:
            now = self._clock.now()
            if now - began > self._limit_s:
                raise TimeoutError
            if build.status != status or now - reported >= _REPORT_S:
                self._log(f"{self._request.image}: {build.status.name.lower()}, {_minutes(now - began)}")
                status, reported = build.status, now
            self._clock.pause(pause)
            pause = min(2 * pause, _POLL_S)
            try:
                build = self._api.get(build.id)
                heard = self._clock.now()
            except CALL_ERRORS as error:
                # The build goes on without us; only a long silence ends the watch.
                if self._late(Trouble.of(error), heard, pause):
                    raise
        return build

    @property
    def _limit_s(self) -> int:
        return self._request.timeout_s + _QUEUE_S + _MARGIN_S

    def _cancelled(self, build: Build) -> str:
        try:
            self._api.cancel(build.id)
        except CALL_ERRORS as error:
            return f"build {build.id} could not be cancelled ({Trouble.of(error).text}), see {build.log_url}"
        return f"build {build.id} has been cancelled, log {build.log_url}"

    def _built(self, build: Build) -> Built:
        digests = [image.digest for image in build.results.images if image.name == self._request.image]
        if len(digests) != 1 or not re.fullmatch(r"sha256:[0-9a-f]{64}", digests[0]):
            raise BuildError(
                f"build {build.id} succeeded but names no digest of {self._request.image}, "
                f"see {build.log_url}"
            )
        self._log(f"{self._request.image}: built, {_minutes(self._clock.now() - self._began)}")
        path = self._request.image.rpartition(":")[0]
        return Built(uri=f"{path}@{digests[0]}", build_id=build.id, log=build.log_url)

    def _failure(self, build: Build) -> str:
        """The end of the log is what a person looks for first, then the whole of it."""
        lines = [f"{self._request.image} was not built: build {build.id} ended as {build.status.name}"]
        details = dict.fromkeys((build.status_detail, build.failure_info.detail))
        lines += [f"  {detail}" for detail in details if detail]
        lines += [
            f"  step {number} of {len(build.steps)}, {step.id or step.name}: {step.status.name}"
            + (f", exit code {step.exit_code}" if step.exit_code else "")
            for number, step in enumerate(build.steps, start=1)
            if step.status not in (Build.Status.SUCCESS, Build.Status.STATUS_UNKNOWN)
        ]
        lines += [f"  | {line}" for line in self._log_end(build)]
        return "\n".join([*lines, f"  whole log: {build.log_url}"])

    def _log_end(self, build: Build) -> list[str]:
        lines = self._api.log_end(build.id)
        try:
            for _ in range(_LOG_READS - 1):
                if not lines:
                    self._clock.pause(_POLL_S)
                    lines = self._api.log_end(build.id)
        except Interrupted:
            return lines
        return lines


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _print(line: str) -> None:
    """The engine shows what a provider prints."""
    print(line, flush=True)
