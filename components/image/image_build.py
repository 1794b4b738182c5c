"""An image that the stack builds in Cloud Build, without Docker or gcloud on this machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.base.account import RunAs, run_as
from components.base.component import Args, Component
from components.base.encryption import bucket_encryption
from components.cloud_build import CloudBuild
from components.cloud_build.context import BuildContext
from components.image.image import ContainerRepository, Image

# Role of a build's account in the project. Google grants writing log entries only on a whole project. The
# role cannot read them.
BUILD_ROLE: Final = "roles/logging.logWriter"


class ImageBuildArgs(Args):
    """Arguments of `ImageBuild`.

    Args:
        location: Region of the bucket with the build's source.
        build_region: Region in which the build runs, that of the pool.
        pool: See `CloudBuild`.
        mirrored: The address at which the base of the image is pulled, by its published address. None for
            that address itself.
        mirror: Resources that must exist before somebody may pull from that address.
        docker_builder: Image with Docker in which the build runs, `NAME@sha256:DIGEST`.
        context: Folder with the Dockerfile and, if needed, a `.dockerignore`.
        texts: Texts that replace those of files in the context, by path.
        kms_key: Path of the key that encrypts the build's source. None means a key of Google's.
        account: Address of an account that exists and has `BUILD_ROLE`. None creates one.
    """

    project: pulumi.Input[str]
    location: str
    build_region: str
    docker_builder: str
    context: Path
    repository: ContainerRepository
    image_name: str
    labels: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    pool: str = ""
    mirrored: Callable[[str], str] | None = None
    mirror: Sequence[pulumi.Resource] = ()
    kms_key: str | None = None
    account: str | None = None


class ImageBuild(Component[ImageBuildArgs]):
    """Uploads the context and builds it, once per content.

    Attributes:
        image: The image. Its fingerprint and its tag are the digest of the context.
    """

    # APIs for the build, its provenance, its account, the account's roles, its source and its log.
    apis = (
        "cloudbuild.googleapis.com",
        "containeranalysis.googleapis.com",
        "iam.googleapis.com",
        "cloudresourcemanager.googleapis.com",
        "storage.googleapis.com",
        "logging.googleapis.com",
    )

    def _declare(self, name: str, args: ImageBuildArgs) -> None:
        context = BuildContext(args.context, args.texts)
        source, bucket = self._source(name, args, context)
        inside = pulumi.ResourceOptions(parent=self)
        account = run_as(
            f"{name}-builder",
            args.account,
            project=args.project,
            display_name=f"Builds of the {args.image_name} image",
            roles={f"{name}-builder-log": BUILD_ROLE},
            parent=self,
        )
        reads = gcp.storage.BucketIAMMember(
            f"{name}-builder-source",
            bucket=bucket.name,
            role="roles/storage.objectViewer",
            member=account.member,
            opts=inside,
        )
        base = args.mirrored(context.base) if args.mirrored else ""
        pushes = args.repository.grant_writer(f"{args.image_name}-builder", account.member)
        pulls = self._pulls(name, base, account, [pushes, *args.mirror])
        build = CloudBuild(
            f"{name}-build",
            {
                "project": args.project,
                "location": args.build_region,
                "image": pulumi.Output.concat(args.repository.path, f"/{args.image_name}:{context.digest}"),
                "repositoryCreated": args.repository.created,
                "sourceBucket": bucket.name,
                "sourceObject": source.name,
                "sourceGeneration": source.generation,
                "dockerBuilder": args.docker_builder,
                "pool": args.pool,
                "base": base,
                "serviceAccount": account.path,
            },
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[reads, *account.access, *pulls, pushes],
            ),
        )
        self.image = Image(uri=build.uri, fingerprint=context.digest, repository=args.repository.reference)

    def _pulls(
        self, name: str, base: str, account: RunAs, depends_on: Sequence[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        """Access of the build to the repository of another base, if it is in Artifact Registry.

        Args:
            depends_on: The repository if it is the stack's own, and a resource of Artifact Registry, whose
                API is enabled then.
        """
        repository = Image.parse(base).repository if base else None
        if not repository:
            return []
        return [
            gcp.artifactregistry.RepositoryIamMember(
                f"{name}-builder-base",
                project=repository.project,
                location=repository.location,
                repository=repository.name,
                role="roles/artifactregistry.reader",
                member=account.member,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=list(depends_on),
                    # The nodes or another stack may have the same account and the same right.
                    retain_on_delete=account.exists,
                ),
            )
        ]

    def _source(
        self, name: str, args: ImageBuildArgs, context: BuildContext
    ) -> tuple[gcp.storage.BucketObject, gcp.storage.Bucket]:
        bucket = gcp.storage.Bucket(
            f"{name}-source",
            project=args.project,
            location=args.location,
            labels=args.labels,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
            encryption=bucket_encryption(args.kms_key),
            # The bucket holds only copies of files from this repository.
            force_destroy=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        archive = context.write(f"{args.image_name}-{context.digest}")
        source = gcp.storage.BucketObject(
            f"{name}-archive",
            bucket=bucket.name,
            name=archive.name,
            source=pulumi.FileAsset(archive.as_posix()),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return source, bucket
