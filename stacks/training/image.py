"""The image in which a stack trains: an image of the settings, or one that the stack builds."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from cloud import cloudbuild
from components.image.image import ContainerRepository, ContainerRepositoryArgs, Image
from components.image.image_build import ImageBuild, ImageBuildArgs
from stacks import pins
from stacks.platform import WORKLOADS, Site
from stacks.settings.reader import REGION, Hint
from stacks.settings.shared_settings import ImageByDigest, StackSettings
from stacks.training.packages import REQUIREMENTS, with_packages


class ImageSettings(StackSettings):
    """Settings of every scenario with a training image.

    Attributes:
        image_folder: Folder with the Dockerfile and the locked requirements of the image, which has its name.
    """

    runs_as: ClassVar = ("build",)
    image_folder: ClassVar[Path]

    image: ImageByDigest = Field(
        None,
        alias="imageUri",
        description="Image that was built from the workload's Dockerfile. By default the stack builds it.",
    )
    build_region: Annotated[str | None, Hint(values="a region such as us-central1 (not a zone)")] = Field(
        None,
        pattern=REGION,
        description="Region in which Cloud Build builds the image. By default the stack's region if every "
        f"project may build there, else {cloudbuild.OPEN_REGIONS[0]}. The image itself is always kept in the "
        "stack's region.",
    )
    build_pool: Annotated[
        str | None, Hint(values="a private pool, projects/PROJECT/locations/REGION/workerPools/NAME")
    ] = Field(
        None,
        pattern=r"^projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/locations/[a-z]+(-[a-z]+)+[0-9]+/workerPools/"
        r"[a-z][a-z0-9-]{0,62}$",
        description="Private pool of Cloud Build in which the image is built, in its region, on its machines "
        "and in its network. The build needs about 100 GB of disk. By default Google's own machines build "
        "the image.",
    )
    scan_images: bool = Field(
        False,
        description="Whether Artifact Registry scans the image that the stack builds. Google bills every "
        "scan.",
    )
    extra_requirements: Annotated[
        str | None, Hint(values="the path of a requirements file with exact versions and hashes")
    ] = Field(
        None,
        description="File of packages that the image gets besides its own, which `docs/training/packages.md` "
        "says how to lock. Another package or version is another image and another run.",
    )

    @property
    def replaced_texts(self) -> dict[str, str]:
        """Texts in place of those in the image's build context, by path."""
        if self.extra_requirements is None:
            return {}
        return {REQUIREMENTS: self._with_packages(self.extra_requirements)}

    @classmethod
    def _with_packages(cls, path: str) -> str:
        return with_packages(cls.image_folder / REQUIREMENTS, WORKLOADS.parent / path)

    @field_validator("extra_requirements")
    @classmethod
    def _are_locked(cls, path: str) -> str:
        try:
            cls._with_packages(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return path

    @field_validator("build_pool")
    @classmethod
    def _chooses_the_region(cls, pool: str | None, info: ValidationInfo) -> str | None:
        if pool and info.data.get("build_region"):
            raise ValueError("the pool's region is that of the build; remove buildRegion")
        return pool

    @property
    def region_of_build(self) -> str:
        """Region in which the image is built."""
        if self.build_pool:
            return self.build_pool.split("/")[3]
        return self.build_region or cloudbuild.build_region(self.region)

    @field_validator("build_region", "build_pool", "scan_images", "extra_requirements")
    @classmethod
    def _needs_a_build(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("image"):
            raise ValueError("with imageUri nothing is built; remove one of the two")
        return value


def training_image(site: Site, settings: ImageSettings) -> Image:
    """The image from the settings, or one that the stack builds."""
    if settings.image:
        return settings.image
    repository = ContainerRepository(
        site.name,
        ContainerRepositoryArgs(
            project=site.project_for(ContainerRepository),
            location=settings.region,
            repository_id=f"images-{site.stack.replace('_', '-')}"[:63].rstrip("-"),
            labels=site.labels,
            vulnerability_scanning=settings.scan_images,
            kms_key=settings.kms_key,
        ),
    )
    return ImageBuild(
        site.name,
        ImageBuildArgs(
            project=site.project_for(ImageBuild),
            location=settings.region,
            build_region=settings.region_of_build,
            pool=settings.build_pool or "",
            kms_key=settings.kms_key,
            account=settings.accounts.get("build"),
            docker_builder=pins.DOCKER_BUILDER,
            mirrored=settings.mirrored if settings.registry else None,
            mirror=site.mirror,
            context=settings.image_folder,
            repository=repository,
            image_name=settings.image_folder.name,
            labels=site.labels,
            texts=settings.replaced_texts,
        ),
    ).image


def from_same_repository(image: Image, own: Image, settings: StackSettings) -> bool:
    """Whether an image of the settings is in the repository of the stack's own image.

    The repository that the stack creates has an output as its project.
    """
    if not image.repository or not own.repository:
        return False
    project = own.repository.project if isinstance(own.repository.project, str) else settings.project
    return image.repository == replace(own.repository, project=project)
