"""A build in Cloud Build as a resource: it runs once, and again when another image is wanted."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pulumi
from pulumi import dynamic

from components.clock import Clock
from components.once import OnceProvider

_RESULTS: Final = ("uri", "build", "log")


class CloudBuildProvider(OnceProvider):
    """Builds the image."""

    servers: ClassVar = {
        "cloud_build": "gcp:cloudBuildCustomEndpoint",
        "logging": "gcp:loggingCustomEndpoint",
    }
    identity = ("project", "image", "repositoryCreated")

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Builds and waits for the end.

        Raises:
            OnceError: Without an image; the message says why and what to do.
        """
        # Here and not above, so that a preview does not load Google's client library.
        from components.cloud_build.run import BuildRun

        results = BuildRun(props, self._endpoints, self._credentials, Clock()).run()
        return dynamic.CreateResult(results["build"], {**props, **results})


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A build that has run.

    Its inputs, besides `project`, `location`, `sourceBucket` and `sourceGeneration`:
        image: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`; the tag stands for the content.
        repositoryCreated: When the repository was created; another one needs the image again.
        sourceObject: The context, a `.tar.gz` with a Dockerfile at its root.
        serviceAccount: `projects/PROJECT/serviceAccounts/EMAIL` that the build runs as.
    """

    uri: pulumi.Output[str]

    def __init__(
        self, name: str, inputs: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(CloudBuildProvider(), name, {**inputs, **dict.fromkeys(_RESULTS)}, opts)
