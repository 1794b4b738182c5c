"""One run of a build: started as soon as the project is ready for it, watched, cancelled when need be."""

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tenacity import RetryCallState, Retrying, retry_if_exception_type, retry_if_result, wait_exponential
from tenacity.retry import retry_base

from components.clock import Clock, Interrupted
from components.cloud_build.api import BuildApi, Kind, Trouble
from components.cloud_build.inputs import BuildError, BuildInputs

# How long a build may wait for a machine, in seconds.
_QUEUE_S: Final = 1800
# Beyond its own limits, before a build is taken for stuck.
_MARGIN_S: Final = 300
# Looks at a build: often at first, when it fails for simple reasons, then at a steady pace.
_FIRST_LOOK_S: Final = 0.5
_POLL_S: Final = 5.0
_REPORT_S: Final = 60.0
# 2, 4, 8 and 16 seconds, then always 30.
_BACKOFF: Final = wait_exponential(multiplier=2, max=30)
# The end of a log arrives some seconds after the end of the build.
_LOG_READS: Final = 4

# A grant that IAM does not know everywhere yet ends a build that has started, before it has done anything.
_TOO_EARLY: Final = ("FETCH_SOURCE_FAILED", "LOGGING_FAILURE")
_RUNNING: Final = ("PENDING", "QUEUED", "WORKING")

# A build as Cloud Build's API shows it.
Build = dict[str, Any]


class BuildRun:
    """A build from the request to the image.

    Args:
        clock: What time it is and how to wait.
    """

    def __init__(self, api: BuildApi, inputs: BuildInputs, clock: Clock | None = None) -> None:
        self._api = api
        self._inputs = inputs
        self._image = str(inputs.image)
        self._clock = clock or Clock()
        self._began = self._clock.now()

    def run(self) -> dict[str, str]:
        """Builds, and prints how far it is.

        Returns:
            The outputs of `CloudBuild`: the image by digest, the build's id, the address of its log.

        Raises:
            BuildError: Without an image; a build that was still running has been cancelled.
        """
        try:
            too_early = retry_if_result(lambda ended: ended.get("failureInfo", {}).get("type") in _TOO_EARLY)
            build = self._retrying(too_early)(lambda: self._watch(self._start()))
        except (Trouble, Interrupted) as error:
            raise BuildError(f"{self._image} was not built: {error}") from None
        if build["status"] != "SUCCESS":
            raise BuildError(self._failure(build))
        images = build.get("results", {}).get("images", [])
        digests = [image["digest"] for image in images if image["name"] == self._image]
        if len(digests) != 1 or not re.fullmatch(r"sha256:[0-9a-f]{64}", digests[0]):
            raise BuildError(
                f"build {build['id']} succeeded but names no digest of {self._image}, see {build['logUrl']}"
            )
        self._log(f"built, {_minutes(self._clock.now() - self._began)}")
        path = self._image.rpartition(":")[0]
        return {"uri": f"{path}@{digests[0]}", "build": build["id"], "log": build["logUrl"]}

    def _start(self) -> Build:
        tag = f"request-{uuid.uuid4().hex}"
        retrying = self._retrying(retry_if_exception_type(Trouble))

        def create() -> Build:
            # An earlier attempt may have succeeded, and only its answer got lost.
            found = self._api.find(tag) if retrying.statistics["attempt_number"] > 1 else None
            return found or self._api.create(_message(self._inputs, tag))

        return retrying(create)

    def _retrying(self, retry: retry_base) -> Retrying:
        """Tries again for as long as that can help; then the last attempt's outcome stands."""
        return Retrying(
            retry=retry,
            wait=_BACKOFF,
            stop=self._is_hopeless_since(self._clock.now()),
            sleep=self._clock.wait,
            before_sleep=self._log_retry,
            retry_error_callback=_outcome,
        )

    def _is_hopeless_since(self, began: float) -> Callable[[RetryCallState], bool]:
        """Whether the next attempt would come after the time that its kind of failure can last."""

        def is_hopeless(state: RetryCallState) -> bool:
            error = state.outcome and state.outcome.exception()
            timeout_s = error.timeout_s if isinstance(error, Trouble) else Kind.PROPAGATION.value[0]
            return self._clock.now() - began + state.upcoming_sleep > timeout_s

        return is_hopeless

    def _watch(self, build: Build) -> Build:
        """The build once it has ended; whatever else happens, it does not go on running."""
        self._log(f"build {build['id']} started, log {build['logUrl']}")
        try:
            return self._ended(build)
        except (Trouble, Interrupted, TimeoutError) as error:
            raise BuildError(f"{self._image} was not built: {error}; {self._cancelled(build)}") from None

    def _ended(self, build: Build) -> Build:
        limit_s = self._inputs.timeout_s + _QUEUE_S + _MARGIN_S
        began = reported = self._clock.now()
        status, backoff = "", _FIRST_LOOK_S
        while build["status"] in _RUNNING:
            now = self._clock.now()
            if now - began > limit_s:
                raise TimeoutError(f"it had not ended after {_minutes(limit_s)}")
            if build["status"] != status or now - reported >= _REPORT_S:
                status, reported = build["status"], now
                self._log(f"{status.lower()}, {_minutes(now - began)}")
            self._clock.wait(backoff)
            backoff = min(2 * backoff, _POLL_S)
            # The build goes on without us; only a long silence ends the watch.
            build = self._retrying(retry_if_exception_type(Trouble))(self._api.get, build["id"])
        return build

    def _cancelled(self, build: Build) -> str:
        try:
            self._api.cancel(build["id"])
        except Trouble as trouble:
            return f"build {build['id']} could not be cancelled ({trouble.reason}), see {build['logUrl']}"
        return f"build {build['id']} has been cancelled, log {build['logUrl']}"

    def _failure(self, build: Build) -> str:
        """The end of the log is what a person looks for first, then the whole of it."""
        lines = [f"{self._image} was not built: build {build['id']} ended as {build['status']}"]
        details = dict.fromkeys((build.get("statusDetail"), build.get("failureInfo", {}).get("detail")))
        lines += [f"  {detail}" for detail in details if detail]
        lines += [
            f"  step {number} of {len(build['steps'])}, {step.get('id', step['name'])}: {step['status']}"
            + (f", exit code {step['exitCode']}" if step.get("exitCode") else "")
            for number, step in enumerate(build["steps"], start=1)
            if step.get("status", "SUCCESS") != "SUCCESS"
        ]
        lines += [f"  | {line}" for line in self._log_end(build)]
        return "\n".join([*lines, f"  whole log: {build['logUrl']}"])

    def _log_end(self, build: Build) -> list[str]:
        with suppress(Interrupted):
            for _ in range(_LOG_READS):
                if lines := self._api.log_end(build["id"]):
                    return lines
                self._clock.wait(_POLL_S)
        return []

    def _log_retry(self, state: RetryCallState) -> None:
        outcome = state.outcome
        assert outcome
        error = outcome.exception()
        if isinstance(error, Trouble):
            self._log(f"{error.reason}; trying again in {state.upcoming_sleep:.0f} s")
        else:
            failure = outcome.result()["failureInfo"]
            detail = failure.get("detail", failure["type"])
            self._log(f"{detail}; a new grant may need minutes, trying again")

    def _log(self, line: str) -> None:
        """The engine shows what a provider prints."""
        print(f"{self._image}: {line}", flush=True)


def _outcome(state: RetryCallState) -> Any:
    assert state.outcome
    return state.outcome.result()


def _message(inputs: BuildInputs, tag: str) -> Build:
    """The build as Cloud Build's API takes it.

    Args:
        tag: Finds the build again when the answer to its creation is lost.
    """
    return {
        "source": {
            "storageSource": {
                "bucket": inputs.source_bucket,
                "object": inputs.source_object,
                "generation": f"{inputs.source_generation:.0f}",
            }
        },
        "steps": [
            {
                "id": "docker build",
                "name": "gcr.io/cloud-builders/docker",
                "args": ["build", "--tag", inputs.image, "."],
                "env": ["DOCKER_BUILDKIT=1"],
            }
        ],
        "images": [inputs.image],
        "serviceAccount": inputs.service_account,
        "timeout": f"{inputs.timeout_s:.0f}s",
        "queueTtl": f"{_QUEUE_S}s",
        "tags": [tag],
        "options": {
            # The other places for a log ask for more than the right to write entries.
            "logging": "CLOUD_LOGGING_ONLY",
            "machineType": inputs.machine_type,
            "diskSizeGb": f"{inputs.disk_gb:.0f}",
        },
    }


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
