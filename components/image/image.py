"""Container images by digest, which cannot change under a running stack, and their repository."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component

_URI: Final = re.compile(r"(?!.*//)[a-z0-9][a-z0-9._:/-]*@sha256:(?P<digest>[0-9a-f]{64})")
_ARTIFACT_REGISTRY: Final = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/.+"
)

# Versions of each image that are kept at any age, so that an older commit still runs.
_KEPT_VERSIONS: Final = 5
_DELETIONS: Final = (("delete-old-untagged", "UNTAGGED", "86400s"), ("delete-old", "ANY", "2592000s"))


@dataclass(frozen=True, kw_only=True)
class ImageRepository:
    """A repository of Artifact Registry.

    Args:
        location: Region, or multi-region such as `us`.
    """

    project: pulumi.Input[str]
    location: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image by digest, from the settings or built by the stack.

    Args:
        uri: `REGISTRY/PATH@sha256:DIGEST`. An output if the stack builds the image.
        fingerprint: Eight hex digits that change with the image and are known before anything is deployed.
        repository: The Artifact Registry repository, which nodes need access to. None for other registries.
    """

    uri: pulumi.Input[str]
    fingerprint: str
    repository: ImageRepository | None

    @classmethod
    def parse(cls, text: str) -> "Image":
        """Reads an image reference.

        Raises:
            ValueError: If it is not a reference by digest.
        """
        reference = _URI.fullmatch(text)
        if not reference:
            raise ValueError(
                f"{text!r} is not an image by digest, REGISTRY/IMAGE@sha256:64 hex digits; a tag may point "
                "to another image tomorrow; `docker buildx imagetools inspect IMAGE:TAG` prints the digest"
            )
        place = _ARTIFACT_REGISTRY.fullmatch(text)
        return cls(
            uri=text,
            fingerprint=reference["digest"][:8],
            repository=ImageRepository(**place.groupdict()) if place else None,
        )


class ContainerRepositoryArgs(Args):
    """Arguments of `ContainerRepository`.

    Args:
        location: Region. Pulls from the same region are free.
        kms_key: Path of the key that encrypts the images. None means a key of Google's.
    """

    project: pulumi.Input[str]
    location: str
    repository_id: str
    labels: Mapping[str, str]
    kms_key: str | None = None


class ContainerRepository(Component[ContainerRepositoryArgs]):
    """A Docker repository that deletes old images by itself, and all images with itself.

    Attributes:
        reference: The repository as the source of images.
        path: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`. Append a slash and the name of an image.
        created: Time of its creation. Another time means a new repository without the old images.
    """

    apis = ("artifactregistry.googleapis.com",)

    def _declare(self, name: str, args: ContainerRepositoryArgs) -> None:
        self._name = name
        # A policy that keeps a version wins over one that deletes it.
        # https://docs.cloud.google.com/artifact-registry/docs/repositories/cleanup-policy-overview
        policies = [
            gcp.artifactregistry.RepositoryCleanupPolicyArgs(
                id="keep-newest",
                action="KEEP",
                most_recent_versions=gcp.artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                    keep_count=_KEPT_VERSIONS
                ),
            ),
            *(
                gcp.artifactregistry.RepositoryCleanupPolicyArgs(
                    id=policy,
                    action="DELETE",
                    condition=gcp.artifactregistry.RepositoryCleanupPolicyConditionArgs(
                        tag_state=state, older_than=age
                    ),
                )
                for policy, state, age in _DELETIONS
            ),
        ]
        self._repository = gcp.artifactregistry.Repository(
            f"{name}-repository",
            project=args.project,
            location=args.location,
            repository_id=args.repository_id,
            format="DOCKER",
            labels=args.labels,
            kms_key_name=args.kms_key,
            cleanup_policies=policies,
            cleanup_policy_dry_run=False,
            # Google bills every scan.
            vulnerability_scanning_config=gcp.artifactregistry.RepositoryVulnerabilityScanningConfigArgs(
                enablement_config="DISABLED"
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                # Another key makes another repository of the same name. The images are built again.
                delete_before_replace=True,
            ),
        )
        self.reference = ImageRepository(
            project=self._repository.project, location=args.location, name=args.repository_id
        )
        self.path: pulumi.Output[str] = pulumi.Output.concat(
            f"{args.location}-docker.pkg.dev/", self._repository.project, "/", self._repository.repository_id
        )
        self.created: pulumi.Output[str] = self._repository.create_time

    def grant_writer(self, writer: str, member: pulumi.Input[str]) -> pulumi.Resource:
        """Lets a member push images. The member may be created after the repository, as a build's account is.

        Args:
            writer: Name of the member, for the name of the binding.

        Returns:
            The binding, for which a push must wait.
        """
        return gcp.artifactregistry.RepositoryIamMember(
            f"{self._name}-{writer}-writer",
            project=self._repository.project,
            location=self._repository.location,
            repository=self._repository.repository_id,
            role="roles/artifactregistry.writer",
            member=member,
            opts=pulumi.ResourceOptions(parent=self),
        )
