"""A build in Cloud Build as a resource: it runs once, and again when another image is wanted."""

import os
import sys
import traceback
from typing import Any, Final

import pulumi
from pulumi import dynamic

from components.cloud_build.inputs import BuildError, BuildInputs

# Another value of these means another image; the other inputs only say how an image is built.
_IDENTITY: Final = ("project", "location", "image", "repositoryCreated")
_RESULTS: Final = ("uri", "build", "log")

# Addresses of other servers, as the gcp provider itself takes them: stack configuration, environment.
_ENDPOINTS: Final = {
    "cloud_build": ("gcp:cloudBuildCustomEndpoint", "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"),
    "logging": ("gcp:loggingCustomEndpoint", "GOOGLE_LOGGING_CUSTOM_ENDPOINT"),
}


class CloudBuildProvider(dynamic.ResourceProvider):
    """Runs the build when the resource is created, never in a preview.

    The state holds this class by its name, `components.cloud_build.CloudBuildProvider`: an edit of the code
    is no change of the resource, and a stack from before the edit can still be destroyed.
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

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        """Another image replaces. Another way to build the same one is no difference, only noted for the next
        build: in the preview of an update the image would be unknown, and so be replaced what runs it.
        """
        changed = [key for key in _IDENTITY if _olds.get(key) != _news.get(key)]
        return dynamic.DiffResult(changes=bool(changed), replaces=changed)

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Builds and waits for the end.

        Raises:
            BuildError: Without an image; the message says why and what to do.
        """
        # Here and not above, so that a preview does not load Google's client library.
        from components.cloud_build.api import BuildApi
        from components.cloud_build.run import BuildRun

        inputs = BuildInputs.of(props)
        api = BuildApi(str(inputs.project), inputs.location, **self._endpoints)
        results = BuildRun(api, inputs).run()
        return dynamic.CreateResult(results["build"], {**props, **results})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Nothing: pods may still run the old image; its repository's clean-up or end removes it."""


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A build that has run."""

    uri: pulumi.Output[str]

    def __init__(self, name: str, inputs: BuildInputs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(CloudBuildProvider(), name, {**inputs.properties(), **dict.fromkeys(_RESULTS)}, opts)


_format_exc = traceback.format_exc


def _message_or_traceback(limit: int | None = None, chain: bool = True) -> str:
    """What the SDK's server of dynamic providers reports to the engine: it takes every error's traceback."""
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, BuildError) else _format_exc(limit, chain)
