"""A build in Cloud Build as a resource: it runs once per image."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pulumi
from pulumi import dynamic

from components.base.clock import Clock
from components.base.once import OnceProvider

_RESULTS: Final = ("uri", "build", "log")


class CloudBuildProvider(OnceProvider):
    """Builds an image when the resource is created."""

    servers: ClassVar = {
        "cloud_build": "gcp:cloudBuildCustomEndpoint",
        "logging": "gcp:loggingCustomEndpoint",
    }
    identity = ("project", "image", "repositoryCreated")

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Starts the build and waits for its end.

        Raises:
            OnceError: If there is no image. The message has the reason and the next step.
        """
        # Imported here, so that a preview does not load Google's client library.
        from components.cloud_build.build import BuildRun

        results = BuildRun(props, self._endpoints, self._credentials, Clock()).run()
        return dynamic.CreateResult(results["build"], {**props, **results})


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A successful build.

    Its inputs, besides `project`, `location`, `sourceBucket` and `sourceGeneration`:
        image: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`. The tag is a digest of the content.
        repositoryCreated: Creation time of the repository. A new repository needs the image again.
        sourceObject: The context, a `.tar.gz` with a Dockerfile at its root.
        pool: Private pool in which the build runs, `projects/PROJECT/locations/REGION/workerPools/NAME`, or
            empty for Google's own machines.
        base: Image on which the Dockerfile builds in place of its `ARG BASE`, with the same content. Empty
            for that image itself.
        dockerBuilder: Image with Docker in which the build runs.
        serviceAccount: Service account of the build, `projects/PROJECT/serviceAccounts/EMAIL`.
    """

    uri: pulumi.Output[str]

    def __init__(
        self, name: str, inputs: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(CloudBuildProvider(), name, {**inputs, **dict.fromkeys(_RESULTS)}, opts)
