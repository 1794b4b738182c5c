"""Container images, named so that they cannot change under a running stack, and the repository for them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.component import Args, Component

_URI: Final = re.compile(r"(?!.*//)[a-z0-9][a-z0-9._:/-]*@sha256:(?P<digest>[0-9a-f]{64})")
_ARTIFACT_REGISTRY: Final = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/.+"
)

# Versions of each image that stay whatever their age, so that an older commit still runs.
_KEPT_VERSIONS: Final = 5
_DELETIONS: Final = (("delete-old-untagged", "UNTAGGED", "86400s"), ("delete-old", "ANY", "2592000s"))


@dataclass(frozen=True, kw_only=True)
class ImageRepository:
    """A repository of Artifact Registry.

    Args:
        location: Region or multi-region, such as `us`.
    """

    project: pulumi.Input[str]
    location: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image by digest, given or built by the stack.

    Args:
        uri: `REGISTRY/PATH@sha256:DIGEST`; of a built one an output.
        fingerprint: Eight hex digits that change with it, known before anything is deployed.
        repository: The Artifact Registry repository that nodes must be allowed to read, None elsewhere.
    """

    uri: pulumi.Input[str]
    fingerprint: str
    repository: ImageRepository | None

    @classmethod
    def parse(cls, text: str) -> "Image":
        """Reads an image reference.

        Raises:
            ValueError: When it is not a reference by digest.
        """
        reference = _URI.fullmatch(text)
        if not reference:
            raise ValueError(
                f"{text!r} is not an image by digest, REGISTRY/IMAGE@sha256:64 hex digits; "
                "a tag may point to another image tomorrow"
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
        location: Region; pulls from the same one are free.
        vulnerability_scanning: Whether pushed images are scanned, where the project has Artifact
            Analysis on; every scan is billed.
    """

    project: pulumi.Input[str]
    location: str
    repository_id: str
    labels: Mapping[str, str]
    vulnerability_scanning: bool


class ContainerRepository(Component[ContainerRepositoryArgs]):
    """A Docker repository that keeps itself small and goes with its images.

    Attributes:
        reference: Where images in it are pulled from.
        path: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`; an image's name follows after a slash.
        created: Time of its creation. Another time means another repository, without the old one's images.
    """

    group = "image"
    apis = ("artifactregistry.googleapis.com",)

    def _declare(self, name: str, args: ContainerRepositoryArgs) -> None:
        self._name = name
        # Keeping wins over deleting.
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
            cleanup_policies=policies,
            cleanup_policy_dry_run=False,
            vulnerability_scanning_config=gcp.artifactregistry.RepositoryVulnerabilityScanningConfigArgs(
                enablement_config="INHERITED" if args.vulnerability_scanning else "DISABLED"
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.reference = ImageRepository(
            project=self._repository.project, location=args.location, name=args.repository_id
        )
        self.path: pulumi.Output[str] = pulumi.Output.concat(
            f"{args.location}-docker.pkg.dev/", self._repository.project, "/", self._repository.repository_id
        )
        self.created: pulumi.Output[str] = self._repository.create_time

    def grant_writer(self, writer: str, member: pulumi.Input[str]) -> pulumi.Resource:
        """Lets a member push that is known only after the repository, such as a build's account.

        Returns:
            What a push must wait for.
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
