"""Where images that others publish come from: their own registries, or one of the user's in front of them."""

from typing import Annotated

from pydantic import Field

from stacks.reader import GoogleSettings, Hint


class RegistrySettings(GoogleSettings):
    """Settings of the images of every scenario."""

    registry: Annotated[
        str | None, Hint(values="a registry with a path, such as LOCATION-docker.pkg.dev/PROJECT/REPOSITORY")
    ] = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9.-]*\.[a-z]+(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$",
        examples=["us-central1-docker.pkg.dev/MY_PROJECT/images"],
        description="Registry in place of Docker Hub and registry.k8s.io. vLLM's server, the base of the "
        "training image and Kueue's manager come from it, by their usual paths and digests. Nodes and the "
        "build get access if it is in Artifact Registry. By default the images come from where they are "
        "published.",
    )

    def mirrored(self, uri: str) -> str:
        """The address at which an image `HOST/PATH@DIGEST` is pulled."""
        return f"{self.registry}/{uri.partition('/')[2]}" if self.registry else uri
