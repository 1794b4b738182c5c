"""A build in Cloud Build as a resource: it runs once, and again when another image is wanted."""

from typing import Any, ClassVar, Final

import pulumi
from pulumi import dynamic

from components.cloud_build.inputs import BuildInputs
from components.once import OnceProvider

_RESULTS: Final = ("uri", "build", "log")


class CloudBuildProvider(OnceProvider):
    """Builds the image."""

    servers: ClassVar = {
        "cloud_build": ("gcp:cloudBuildCustomEndpoint", "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT"),
        "logging": ("gcp:loggingCustomEndpoint", "GOOGLE_LOGGING_CUSTOM_ENDPOINT"),
    }
    identity = ("project", "image", "repositoryCreated")

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


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A build that has run."""

    uri: pulumi.Output[str]

    def __init__(self, name: str, inputs: BuildInputs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(CloudBuildProvider(), name, {**inputs.properties(), **dict.fromkeys(_RESULTS)}, opts)
