"""A repository of the stack's own in front of the registries that publish images."""

from collections.abc import Mapping
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.image.image import Image, ImageRepository

_DOCKER_HUB: Final = gcp.artifactregistry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
    public_repository="DOCKER_HUB"
)
_KUBERNETES: Final = gcp.artifactregistry.RepositoryRemoteRepositoryConfigCommonRepositoryArgs(
    uri="https://registry.k8s.io"
)
# An upstream fetches an image that it has deleted again when somebody pulls it: assumption mirrored-images.
_CLEANUP: Final = gcp.artifactregistry.RepositoryCleanupPolicyArgs(
    id="delete-after-90-days",
    action="DELETE",
    condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(
        tag_state="ANY", older_than="7776000s"
    ),
)
# The upstreams by the end of their names. Artifact Registry asks the one with the highest priority first.
# https://docs.cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories
_UPSTREAMS: Final = {
    "docker-hub": (
        gcp.artifactregistry.RepositoryRemoteRepositoryConfigArgs(docker_repository=_DOCKER_HUB),
        2,
    ),
    "kubernetes": (
        gcp.artifactregistry.RepositoryRemoteRepositoryConfigArgs(common_repository=_KUBERNETES),
        1,
    ),
}


def _end(kms_key: str | None) -> str:
    """End of an upstream's name, another one for each key.

    With another key an upstream is replaced. The virtual repository still uses the old one then, which can go
    only after it.
    """
    return f"-{fingerprint(kms_key)}" if kms_key else ""


class MirrorArgs(Args):
    """Arguments of `Mirror`.

    Args:
        location: Region. Pulls from the same region are free.
        repository_id: Name of the repository. Those of its upstreams begin with it.
        kms_key: Path of the key that encrypts the images. None means a key of Google's.
    """

    project: pulumi.Input[str]
    location: str
    repository_id: str
    labels: Mapping[str, str]
    kms_key: str | None = None


class Mirror(Component[MirrorArgs]):
    """A virtual repository in front of one for Docker Hub and one for registry.k8s.io.

    It fetches an image the first time that somebody pulls it, and keeps it.

    Attributes:
        ready: The repository, for which everything that pulls from it must wait.
    """

    apis = ("artifactregistry.googleapis.com",)

    def _declare(self, name: str, args: MirrorArgs) -> None:
        upstreams = {
            upstream: gcp.artifactregistry.Repository(
                f"{name}-{upstream}",
                project=args.project,
                location=args.location,
                repository_id=f"{args.repository_id}-{upstream}{_end(args.kms_key)}",
                format="DOCKER",
                mode="REMOTE_REPOSITORY",
                labels=args.labels,
                kms_key_name=args.kms_key,
                remote_repository_config=source,
                cleanup_policies=[_CLEANUP],
                cleanup_policy_dry_run=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for upstream, (source, _) in _UPSTREAMS.items()
        }
        policies = [
            gcp.artifactregistry.RepositoryVirtualRepositoryConfigUpstreamPolicyArgs(
                id=upstream, repository=repository.id, priority=_UPSTREAMS[upstream][1]
            )
            for upstream, repository in upstreams.items()
        ]
        self.ready = gcp.artifactregistry.Repository(
            f"{name}-mirror",
            project=args.project,
            location=args.location,
            repository_id=args.repository_id,
            format="DOCKER",
            mode="VIRTUAL_REPOSITORY",
            labels=args.labels,
            kms_key_name=args.kms_key,
            virtual_repository_config=gcp.artifactregistry.RepositoryVirtualRepositoryConfigArgs(
                upstream_policies=policies
            ),
            # Another key makes another repository of the same name, by which all images are pulled.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        self._location, self._repository_id = args.location, args.repository_id

    def serves(self, image: Image) -> Image:
        """The image, whose repository exists once the mirror does. An image from elsewhere stays as it is."""
        repository = image.repository
        if not repository or (repository.location, repository.name) != (self._location, self._repository_id):
            return image
        waiting = ImageRepository(
            project=self.ready.project, location=repository.location, name=repository.name
        )
        return Image(uri=image.uri, fingerprint=image.fingerprint, repository=waiting)
