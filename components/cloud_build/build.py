"""Runs a build: starts it once the project is ready, watches it, and cancels it if `pulumi up` ends first."""

import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from cloud.credentials import CredentialSettings
from cloud.services.cloudbuild import OPEN_REGIONS
from components.base.calls import NO_RETRY, CallError, Calls, RetryLimit, google_api
from components.base.clock import Clock, Interrupted
from components.base.once import OnceError

# Cloud Build's name of the machine, which differs from Compute Engine's.
MACHINE: Final = "E2_HIGHCPU_8"
# The base image, its unpacked layers and the new layers must fit: about three times a CUDA image of 10 GB.
_DISK_GB: Final = 100
# Seconds that the build may wait for a machine, and seconds that it may run. Cloud Build ends it afterwards.
_QUEUE_S: Final = 1800
_BUILD_S: Final = 3600
# The last lines of a log arrive some seconds after the end of the build.
_LOG_READS: Final = 4
_LOG_PAUSE_S: Final = 5.0
_LOG_LINES: Final = 20

_RUNNING: Final = ("PENDING", "QUEUED", "WORKING")
# Failures of a build that has started before IAM knew its account's roles everywhere. Nothing was built then.
_TOO_EARLY: Final = ("FETCH_SOURCE_FAILED", "LOGGING_FAILURE")
_INVISIBLE: Final = re.compile("service account|could not resolve source")

# Changes in IAM usually take effect within 2 minutes, and sometimes need more than 7:
# https://docs.cloud.google.com/iam/docs/access-change-propagation
_PROPAGATION: Final = RetryLimit(
    480.0,
    "; tried for 8 minutes, so it is not a new project's delay; the caller needs "
    "roles/cloudbuild.builds.editor on the project and roles/iam.serviceAccountUser on the build's service "
    "account, that account must read the source and write the log, and the Cloud Build API must be on; "
    "for a buildPool the caller and that account need roles/cloudbuild.workerPoolUser on the pool's project",
)
_QUOTA: Final = RetryLimit(
    60.0,
    "; a quota of Cloud Build is used up: wait for other builds, ask for more at "
    "https://console.cloud.google.com/iam-admin/quotas?service=cloudbuild.googleapis.com, or build in "
    "another region: `pulumi config set buildRegion REGION`",
)
_REGION: Final = RetryLimit(
    0.0,
    f"; this project may build in some regions only, often {', '.join(OPEN_REGIONS)}: "
    f"`pulumi config set buildRegion {OPEN_REGIONS[0]}`, then `pulumi up`; the image stays where it is",
)

# A build in the JSON of Cloud Build's API.
Build = dict[str, Any]


class _TooEarlyError(CallError):
    """The build failed because the project was not ready yet. Another build may succeed."""


def _retry_limit(status: int, reason: str) -> RetryLimit:
    """How long to retry an error, by its HTTP status and its message.

    Status 400 covers several cases. One is a region in which the project may not build. Another is an account
    or an object that is not visible yet. https://docs.cloud.google.com/build/docs/locations
    """
    if status in (403, 404) or (status == 400 and _INVISIBLE.search(reason)):
        return _PROPAGATION
    if "cannot run builds in this region" in reason:
        return _REGION
    return _QUOTA if status == 429 or "quota" in reason else NO_RETRY


class BuildRun:
    """A build from the request to the image.

    Args:
        inputs: Inputs of `CloudBuild`. The engine sends every number as a float.
        servers: Addresses of servers that answer instead of Google, by `cloud_build` and `logging`.

    Raises:
        OnceError: If there are no usable credentials.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        servers: Mapping[str, str | None],
        credentials: CredentialSettings,
        clock: Clock,
    ) -> None:
        self._inputs = inputs
        self._image: str = inputs["image"]
        self._status = ""
        self._calls = Calls(clock, _retry_limit, self._log)
        project: str = inputs["project"]
        self._parent = f"projects/{project}/locations/{inputs['location']}"
        build = google_api("cloudbuild.v1", servers["cloud_build"], project, credentials)
        self._builds = build.projects().locations().builds()
        self._entries = google_api("logging.v2", servers["logging"], project, credentials).entries()

    def run(self) -> dict[str, str]:
        """Builds the image and prints the progress.

        Returns:
            The outputs of `CloudBuild`: the image by digest, the build's id, the address of its log.

        Raises:
            OnceError: If there is no image. A build that was still running has been cancelled.
        """
        try:
            build = self._calls.retrying(_TooEarlyError)(self._attempt)
        except (CallError, Interrupted) as error:
            raise OnceError(f"{self._image} was not built: {error}") from None
        if build["status"] != "SUCCESS":
            raise OnceError(self._failure(build))
        images = build.get("results", {}).get("images", [])
        digests = [image["digest"] for image in images if image["name"] == self._image]
        if len(digests) != 1 or not re.fullmatch(r"sha256:[0-9a-f]{64}", digests[0]):
            raise OnceError(
                f"build {build['id']} succeeded but names no digest of {self._image}, see {build['logUrl']}"
            )
        path = self._image.rpartition(":")[0]
        return {"uri": f"{path}@{digests[0]}", "build": build["id"], "log": build["logUrl"]}

    def _attempt(self) -> Build:
        """Starts a build and returns it after its end. On every error the build is cancelled."""
        build = self._start()
        name, log = f"build {build['id']}", f"log {build['logUrl']}"
        self._log(f"{name} started, {log}")
        path = f"{self._parent}/builds/{build['id']}"
        try:
            ended_build = self._calls.poll(self._has_ended, self._builds.get(name=path))
        except (CallError, Interrupted) as error:
            outcome = self._calls.cancel(self._builds.cancel(name=path))
            raise OnceError(f"{self._image} was not built: {error}; {name} {outcome}, {log}") from None
        failure = ended_build.get("failureInfo", {})
        if failure.get("type") in _TOO_EARLY:
            raise _TooEarlyError(f"{failure.get('detail', failure['type'])} ({name}, {log})", _PROPAGATION)
        return ended_build

    def _start(self) -> Build:
        tag = f"request-{uuid.uuid4().hex}"
        retrying = self._calls.retrying()

        def create() -> Build:
            # An earlier attempt may have succeeded although its answer got lost.
            if retrying.statistics["attempt_number"] > 1:
                search = self._builds.list(parent=self._parent, filter=f'tags="{tag}"', pageSize=1)
                builds = self._calls.send(search).get("builds")
                if builds:
                    return builds[0]
            request = self._builds.create(parent=self._parent, body=_message(self._inputs, tag))
            return self._calls.send(request)["metadata"]["build"]

        return retrying(create)

    def _has_ended(self, build: Build) -> bool:
        if build["status"] != self._status:
            self._status = build["status"]
            self._log(self._status.lower())
        return self._status not in _RUNNING

    def _failure(self, build: Build) -> str:
        """The message for a failed build: its steps, the end of its log and the address of the log."""
        lines = [f"{self._image} was not built: build {build['id']} ended as {build['status']}"]
        details = dict.fromkeys((build.get("statusDetail"), build.get("failureInfo", {}).get("detail")))
        lines += [f"  {detail}" for detail in details if detail]
        for number, step in enumerate(build["steps"], start=1):
            if step.get("status", "SUCCESS") != "SUCCESS":
                name = f"step {number} of {len(build['steps'])}, {step.get('id', step['name'])}"
                exit_code = f", exit code {step['exitCode']}" if step.get("exitCode") else ""
                lines.append(f"  {name}: {step['status']}{exit_code}")
        # If the log cannot be read, the message is still about the failure of the build.
        with suppress(Interrupted, CallError):
            lines += [f"  | {line}" for line in self._log_end(build)]
        return "\n".join([*lines, f"  whole log: {build['logUrl']}"])

    def _log_end(self, build: Build) -> list[str]:
        """The last lines of a build's log, oldest first."""
        query = {
            "resourceNames": [f"projects/{self._inputs['project']}"],
            "filter": f'resource.type="build" resource.labels.build_id="{build["id"]}"',
            "orderBy": "timestamp desc",
            "pageSize": _LOG_LINES,
        }
        for _ in range(_LOG_READS):
            entries = self._calls.send(self._entries.list(body=query)).get("entries", [])
            if lines := [entry["textPayload"] for entry in reversed(entries) if "textPayload" in entry]:
                return lines
            self._calls.clock.wait(_LOG_PAUSE_S)
        return []

    def _log(self, line: str) -> None:
        """Prints a line. The engine shows it to the user."""
        print(f"{self._image}: {line}", flush=True)


def _machine(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a build that choose its machine. A private pool has its own machines and disks.

    https://docs.cloud.google.com/build/docs/private-pools/run-builds-in-private-pool
    """
    if inputs.get("pool"):
        return {"pool": {"name": inputs["pool"]}}
    return {"machineType": MACHINE, "diskSizeGb": f"{_DISK_GB}"}


def _arguments(inputs: Mapping[str, Any]) -> list[str]:
    """Arguments of `docker build` besides the image's tag."""
    return ["--build-arg", f"BASE={inputs['base']}"] if inputs.get("base") else []


def _message(inputs: Mapping[str, Any], tag: str) -> Build:
    """The build as Cloud Build's API takes it.

    Args:
        tag: Tag that finds the build again if the answer to its creation gets lost.
    """
    return {
        "source": {
            "storageSource": {
                "bucket": inputs["sourceBucket"],
                "object": inputs["sourceObject"],
                "generation": f"{inputs['sourceGeneration']:.0f}",
            }
        },
        "steps": [
            {
                "id": "docker build",
                "name": inputs["dockerBuilder"],
                "args": ["build", "--tag", inputs["image"], *_arguments(inputs), "."],
                "env": ["DOCKER_BUILDKIT=1"],
            }
        ],
        "images": [inputs["image"]],
        "serviceAccount": inputs["serviceAccount"],
        "timeout": f"{_BUILD_S}s",
        "queueTtl": f"{_QUEUE_S}s",
        "tags": [tag],
        "options": {
            # Every other place for the log needs more than the permission to write log entries.
            "logging": "CLOUD_LOGGING_ONLY",
            **_machine(inputs),
            # A build without a signed record of its source, its steps and its image fails (assumption
            # verified-provenance). The record is kept by Container Analysis.
            "requestedVerifyOption": "VERIFIED",
        },
    }
