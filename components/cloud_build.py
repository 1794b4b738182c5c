"""A build in Cloud Build as a resource: made once, and again when the image is to be another."""

import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi import dynamic

# Another value of these is another image. The rest only says how this one was made.
_IDENTITY: Final = ("project", "location", "image", "repositoryCreated")
_RESULTS: Final = ("uri", "build", "log")

# https://docs.cloud.google.com/build/pricing; E2_MEDIUM is what Cloud Build takes when nothing is said.
MACHINE_TYPES: Final = ("E2_MEDIUM", "E2_STANDARD_2", "E2_HIGHCPU_8", "E2_HIGHCPU_32")

# Addresses of other servers, as the gcp provider itself takes them: stack configuration, environment.
_ENDPOINTS: Final = {
    "cloud_build": ("gcp:cloudBuildCustomEndpoint", "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"),
    "logging": ("gcp:loggingCustomEndpoint", "GOOGLE_LOGGING_CUSTOM_ENDPOINT"),
}


class BuildError(Exception):
    """There is no image; the text says why, where to look and what to do."""


@dataclass(frozen=True, kw_only=True)
class CloudBuildArgs:
    """Arguments of `CloudBuild`.

    Args:
        project: Project id.
        location: Region of the build.
        image: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`; the tag stands for the content.
        repository_created: When the repository was made; another one needs the image again.
        source_bucket: Bucket of the build context.
        source_object: The context, a `.tar.gz` with a Dockerfile at its root.
        source_generation: Generation of that object.
        service_account: `projects/PROJECT/serviceAccounts/EMAIL` that the build runs as.
        machine_type: Cloud Build's name of the machine.
        disk_gb: Its disk, in GB.
        timeout_s: How long the build may take, in seconds, without the time in the queue.
    """

    project: pulumi.Input[str]
    location: str
    image: pulumi.Input[str]
    repository_created: pulumi.Input[str]
    source_bucket: pulumi.Input[str]
    source_object: pulumi.Input[str]
    source_generation: pulumi.Input[int]
    service_account: pulumi.Input[str]
    machine_type: str
    disk_gb: int
    timeout_s: int


class CloudBuildProvider(dynamic.ResourceProvider):
    """Runs the build where the engine asks for it; a preview never does.

    The state holds this class by its name, so that an edit of the code is no change of the resource.
    """

    # There is nothing secret in a name.
    serialize_as_secret_always = False

    def configure(self, req: dynamic.ConfigureRequest) -> None:
        """Takes the addresses of the APIs; credentials are looked up when they are used."""
        self._endpoints = {
            api: req.config.get(key) or os.environ.get(variable)
            for api, (key, variable) in _ENDPOINTS.items()
        }
        traceback.format_exc = _message_or_traceback  # ty: ignore[invalid-assignment]

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> dynamic.CheckResult:
        """Refuses a machine that Cloud Build does not have, before anything is made."""
        if news["machineType"] in MACHINE_TYPES:
            return dynamic.CheckResult(news, [])
        reason = f"machineType {news['machineType']} is not one of {', '.join(MACHINE_TYPES)}"
        return dynamic.CheckResult(news, [dynamic.CheckFailure("machineType", reason)])

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        """Another image replaces; another way to build the same one is noted for the next time."""
        inputs = [key for key in _news if key not in _RESULTS]
        changed = [key for key in inputs if _olds.get(key) != _news[key]]
        return dynamic.DiffResult(
            changes=bool(changed), replaces=[key for key in changed if key in _IDENTITY]
        )

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Builds and waits for the end.

        Raises:
            BuildError: Without an image; the message says why and what to do.
        """
        # Here and not above, so that a preview does not load Google's client library.
        from components.build_api import BuildApi
        from components.build_run import BuildRequest, BuildRun

        request = BuildRequest.of(props)
        api = BuildApi(request.project, request.location, **self._endpoints)
        built = BuildRun(api, request).run()
        results = {"uri": built.uri, "build": built.build_id, "log": built.log}
        return dynamic.CreateResult(built.build_id, {**props, **results})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.UpdateResult:
        """Nothing runs: the image is the same."""
        return dynamic.UpdateResult({**_news, **{key: _olds[key] for key in _RESULTS}})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Nothing: pods may still run the old image; its repository's clean-up or end removes it."""


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A build that has run.

    Attributes:
        uri: The image by digest.
    """

    uri: pulumi.Output[str]

    def __init__(self, name: str, args: CloudBuildArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        properties = {
            "project": args.project,
            "location": args.location,
            "image": args.image,
            "repositoryCreated": args.repository_created,
            "sourceBucket": args.source_bucket,
            "sourceObject": args.source_object,
            "sourceGeneration": args.source_generation,
            "serviceAccount": args.service_account,
            "machineType": args.machine_type,
            "diskGb": args.disk_gb,
            "timeoutS": args.timeout_s,
        }
        super().__init__(CloudBuildProvider(), name, {**properties, **dict.fromkeys(_RESULTS)}, opts)


_format_exc = traceback.format_exc


def _message_or_traceback(limit: int | None = None, chain: bool = True) -> str:
    """What the SDK's server of dynamic providers reports to the engine: it takes every error's traceback."""
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, BuildError) else _format_exc(limit, chain)
