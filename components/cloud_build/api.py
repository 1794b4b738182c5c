"""The calls that a build needs: of Cloud Build, and of Cloud Logging for the end of its log."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from googleapiclient.errors import HttpError

from cloud.client import CALL_ERRORS, client
from cloud.cloudbuild import OPEN_REGIONS
from cloud.credentials import find_credentials
from components.cloud_build.inputs import BuildError

_TIMEOUT_S: Final = 30.0
_LOG_LINES: Final = 20


class Kind(Enum):
    """Why a call failed: how many seconds to go on trying, and what to do when that did not help.

    IAM's changes reach every place within 2 minutes as a rule, and sometimes need more than 7:
    https://docs.cloud.google.com/iam/docs/access-change-propagation
    """

    PROPAGATION = (
        480.0,
        "; tried for 8 minutes, so it is not a new project's delay; the caller needs "
        "roles/cloudbuild.builds.editor on the project and roles/iam.serviceAccountUser on the "
        "build's service account, and the Cloud Build API must be on",
    )
    OUTAGE = (300.0, "; tried for 5 minutes; see https://status.cloud.google.com, then run `pulumi up` again")
    QUOTA = (
        60.0,
        "; a quota of Cloud Build is used up: wait for other builds, ask for more at "
        "https://console.cloud.google.com/iam-admin/quotas?service=cloudbuild.googleapis.com, or build in "
        "another region: `pulumi config set buildRegion REGION`",
    )
    REGION = (
        0.0,
        f"; this project may build in some regions only, often {', '.join(OPEN_REGIONS)}: "
        f"`pulumi config set buildRegion {OPEN_REGIONS[0]}`, then `pulumi up`; the image stays where it is",
    )
    CREDENTIALS = (0.0, "; run `gcloud auth application-default login`")
    REJECTED = (0.0, "")


class Trouble(Exception):
    """A failed call: why, and how many seconds to go on trying."""

    def __init__(self, error: Exception) -> None:
        # Without the address of the call around it.
        self.reason, kind = "Cloud Build cannot be reached", Kind.OUTAGE
        if isinstance(error, HttpError):
            self.reason = error.reason or f"HTTP {error.status_code}"
            kind = _kind(error.status_code, self.reason.lower())
        elif isinstance(error, GoogleAuthError) and not isinstance(error, TransportError):
            self.reason, kind = str(error), Kind.CREDENTIALS
        self.timeout_s, remedy = kind.value
        super().__init__(self.reason + remedy)


def _kind(status: int, reason: str) -> Kind:
    """Judges an answer by its status and, where that says too little, by its message.

    A region that a project may not build in is a failed precondition, which is a bad request; an account
    or object that is not visible yet is one too. https://docs.cloud.google.com/build/docs/locations
    """
    match status:
        case 401:
            return Kind.CREDENTIALS
        case 403 | 404:
            return Kind.PROPAGATION
        case 400 if "service account" in reason or "could not resolve source" in reason:
            return Kind.PROPAGATION
        case 429:
            return Kind.QUOTA
        case 400 if "cannot run builds in this region" in reason:
            return Kind.REGION
        case 400 if "quota" in reason:
            return Kind.QUOTA
    return Kind.OUTAGE if status >= 500 else Kind.REJECTED


class BuildApi:
    """Builds of one project and region.

    Each method sends one request and raises `Trouble` when it fails; `BuildRun` decides when to try again.

    Args:
        cloud_build: Custom endpoint such as `http://127.0.0.1:8080/v1/`; None for Google's.
        logging: The same for Cloud Logging, ending in `/v2/`.

    Raises:
        BuildError: Without Application Default Credentials.
    """

    def __init__(self, project: str, location: str, cloud_build: str | None, logging: str | None) -> None:
        try:
            credentials = find_credentials(cloud_build)
        except DefaultCredentialsError as error:
            raise BuildError(f"Cloud Build cannot be called: {error}") from None
        self._project = project
        self._parent = f"projects/{project}/locations/{location}"
        # The client library appends the version itself.
        host, log_host = (cloud_build or "").removesuffix("v1/"), (logging or "").removesuffix("v2/")
        build = client("cloudbuild.v1", credentials, _TIMEOUT_S, host or None)
        self._builds = build.projects().locations().builds()
        self._entries = client("logging.v2", credentials, _TIMEOUT_S, log_host or None).entries()

    def create(self, build: Mapping[str, Any]) -> dict[str, Any]:
        """Starts a build and returns it as it was accepted."""
        return _answer(self._builds.create(parent=self._parent, body=build))["metadata"]["build"]

    def find(self, tag: str) -> dict[str, Any] | None:
        """The build with a tag, if there is one."""
        found = _answer(self._builds.list(parent=self._parent, filter=f'tags="{tag}"', pageSize=1))
        return next(iter(found.get("builds", [])), None)

    def get(self, build_id: str) -> dict[str, Any]:
        """A build as it is now."""
        return _answer(self._builds.get(name=f"{self._parent}/builds/{build_id}"))

    def cancel(self, build_id: str) -> None:
        """Ends a build; one that has ended is an error."""
        _answer(self._builds.cancel(name=f"{self._parent}/builds/{build_id}"))

    def log_end(self, build_id: str) -> list[str]:
        """The last lines of a build's log, oldest first; none where the log cannot be read."""
        query = {
            "resourceNames": [f"projects/{self._project}"],
            "filter": f'resource.type="build" resource.labels.build_id="{build_id}"',
            "orderBy": "timestamp desc",
            "pageSize": _LOG_LINES,
        }
        try:
            entries = _answer(self._entries.list(body=query)).get("entries", [])
        except Trouble:
            # The error that is being reported is the build's, and it names the log's address.
            return []
        return [entry["textPayload"] for entry in reversed(entries) if "textPayload" in entry]


def _answer(request: Any) -> dict[str, Any]:
    try:
        return request.execute()
    except CALL_ERRORS as error:
        raise Trouble(error) from None
