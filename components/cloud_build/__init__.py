"""A build in Cloud Build as a resource: it runs once, and again when another image is wanted."""

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

        results = BuildRun(props, self._endpoints, Clock()).run()
        return dynamic.CreateResult(results["build"], {**props, **results})


class CloudBuild(dynamic.Resource, module="cloudbuild", name="Build"):
    """A build that has run.

    Args:
        image: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`; the tag stands for the content.
        repository_created: When the repository was created; another one needs the image again.
        source_object: The context, a `.tar.gz` with a Dockerfile at its root.
        service_account: `projects/PROJECT/serviceAccounts/EMAIL` that the build runs as.
    """

    uri: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        project: pulumi.Input[str],
        location: str,
        image: pulumi.Input[str],
        repository_created: pulumi.Input[str],
        source_bucket: pulumi.Input[str],
        source_object: pulumi.Input[str],
        source_generation: pulumi.Input[int],
        service_account: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "project": project,
            "location": location,
            "image": image,
            "repositoryCreated": repository_created,
            "sourceBucket": source_bucket,
            "sourceObject": source_object,
            "sourceGeneration": source_generation,
            "serviceAccount": service_account,
        }
        super().__init__(CloudBuildProvider(), name, {**inputs, **dict.fromkeys(_RESULTS)}, opts)
