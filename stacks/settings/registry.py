"""Where images that others publish come from: their own registries, or one of the user's in front of them."""

import re
from typing import Annotated, Final

import pulumi
from pydantic import Field

from stacks.settings.reader import GoogleSettings, Hint

# Value of the setting for a registry that the stack creates.
OWN: Final = "own"
# Those of a repository, less the end of its upstreams' names.
_MOST_CHARACTERS: Final = 50


class RegistrySettings(GoogleSettings):
    """Settings of the images of every scenario."""

    registry: Annotated[
        str | None,
        Hint(values="own, or a registry with a path, such as LOCATION-docker.pkg.dev/PROJECT/REPOSITORY"),
    ] = Field(
        None,
        pattern=r"^own$|^[a-z0-9][a-z0-9.-]*\.[a-z]+(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$",
        examples=["us-central1-docker.pkg.dev/MY_PROJECT/images"],
        description="Registry in place of Docker Hub and registry.k8s.io. vLLM's server, the base of the "
        "training image and Kueue's manager come from it, by their usual paths and digests. Nodes and the "
        "build get access if it is in Artifact Registry. With `own` the stack creates one there, which "
        "fetches each image once. By default the images come from where they are published.",
    )

    @property
    def mirror_id(self) -> str:
        """Name of the stack's own repository in front of the others, empty if it has none."""
        stack = re.sub(r"[^a-z0-9-]", "-", pulumi.get_stack().lower())
        return f"mirror-{stack}"[:_MOST_CHARACTERS].rstrip("-") if self.registry == OWN else ""

    def mirrored(self, uri: str) -> str:
        """The address at which an image `HOST/PATH@DIGEST` is pulled."""
        if not self.registry:
            return uri
        own = f"{self.region}-docker.pkg.dev/{self.project}/{self.mirror_id}"
        return f"{own if self.registry == OWN else self.registry}/{uri.partition('/')[2]}"
