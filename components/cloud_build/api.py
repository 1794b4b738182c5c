"""Google's APIs as far as a build needs them: Cloud Build, and Cloud Logging for the end of its log."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from google.auth.exceptions import DefaultCredentialsError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.devtools import cloudbuild_v1
from google.cloud.devtools.cloudbuild_v1.types import Build

from cloud.credentials import find_credentials
from components.cloud_build.inputs import BuildError
from components.cloud_build.trouble import CALL_ERRORS, Trouble

_LOGGING: Final = "https://logging.googleapis.com"
_TIMEOUT_S: Final = 30.0
_LOG_LINES: Final = 20


@contextmanager
def _call() -> Generator[None]:
    try:
        yield
    except CALL_ERRORS as error:
        raise Trouble(error) from None


class BuildApi:
    """Builds of one project and region.

    The REST transport, because a custom endpoint is an HTTP address and proxies understand it. Calls
    are made once and raise `Trouble`; when to try again is `BuildRun`'s business.

    Args:
        project: Project id.
        location: Region.
        cloud_build: Custom endpoint such as `http://127.0.0.1:8080/v1/`; None for Google's.
        logging: The same for Cloud Logging, ending in `/v2/`.

    Raises:
        BuildError: Without Application Default Credentials, or for an endpoint of another form.
    """

    def __init__(self, project: str, location: str, cloud_build: str | None, logging: str | None) -> None:
        host = _host(cloud_build, "v1")
        self._parent = f"projects/{project}/locations/{location}"
        self._project = project
        try:
            self._credentials = find_credentials(host)
        except DefaultCredentialsError as error:
            raise BuildError(f"Cloud Build cannot be called: {error}") from None
        self._client = cloudbuild_v1.CloudBuildClient(
            transport="rest",
            credentials=self._credentials,
            client_options={"api_endpoint": host} if host else None,
        )
        # A fake Cloud Build does not make the real Cloud Logging reachable.
        self._logging = _host(logging, "v2") or (None if host else _LOGGING)

    @_call()
    def create(self, build: Build) -> Build:
        """Starts a build and returns it as it was accepted."""
        request = cloudbuild_v1.CreateBuildRequest(parent=self._parent, build=build)
        operation = self._client.create_build(request, retry=None, timeout=_TIMEOUT_S)
        return operation.metadata.build

    @_call()
    def find(self, tag: str) -> Build | None:
        """The build with a tag, if there is one."""
        request = cloudbuild_v1.ListBuildsRequest(parent=self._parent, filter=f'tags="{tag}"', page_size=1)
        pages = self._client.list_builds(request, retry=None, timeout=_TIMEOUT_S)
        return next(iter(pages), None)

    @_call()
    def get(self, build_id: str) -> Build:
        """A build as it is now."""
        request = cloudbuild_v1.GetBuildRequest(name=self._name(build_id))
        return self._client.get_build(request, retry=None, timeout=_TIMEOUT_S)

    @_call()
    def cancel(self, build_id: str) -> None:
        """Ends a build; one that has ended is an error."""
        request = cloudbuild_v1.CancelBuildRequest(name=self._name(build_id))
        self._client.cancel_build(request, retry=None, timeout=_TIMEOUT_S)

    def log_end(self, build_id: str) -> list[str]:
        """The last lines of a build's log, oldest first; none where the log cannot be read."""
        if not self._logging:
            return []
        query = {
            "resourceNames": [f"projects/{self._project}"],
            "filter": f'resource.type="build" resource.labels.build_id="{build_id}"',
            "orderBy": "timestamp desc",
            "pageSize": _LOG_LINES,
        }
        try:
            answer = AuthorizedSession(self._credentials).post(
                f"{self._logging}/v2/entries:list", json=query, timeout=_TIMEOUT_S
            )
            answer.raise_for_status()
        except CALL_ERRORS:
            # The error that is being reported is the build's, and it names the log's address.
            return []
        entries: list[dict[str, Any]] = answer.json().get("entries", [])
        return [entry["textPayload"] for entry in reversed(entries) if "textPayload" in entry]

    def _name(self, build_id: str) -> str:
        # Not with `project_id` and `id`: those make it a call for a global build.
        return f"{self._parent}/builds/{build_id}"


def _host(endpoint: str | None, version: str) -> str | None:
    """The client library appends the version itself."""
    if not endpoint:
        return None
    host = re.fullmatch(rf"(https?://.+)/{version}/", endpoint)
    if not host:
        raise BuildError(f"the custom endpoint {endpoint!r} is not of the form https://HOST/{version}/")
    return host[1]
