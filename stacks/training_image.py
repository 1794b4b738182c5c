"""The image that training runs in: the one the settings name, or one that the stack builds."""

from collections.abc import Mapping
from pathlib import Path

from components.cloud_build.image_build import ImageBuild, ImageBuildArgs
from components.container_repository import ContainerRepository, ContainerRepositoryArgs
from components.image import Image, ImageRepository
from components.project_services import ProjectServices
from stacks.settings import Training


def training_image(
    name: str, settings: Training, *, apis: ProjectServices, labels: Mapping[str, str], context: Path
) -> Image:
    """The settings' image, or else a repository and a build of `context` in it.

    Args:
        name: Name of the scenario; starts the name of everything.
        settings: The stack's settings.
        apis: Enables what is needed.
        labels: Labels of what is made.
        context: Folder with the Dockerfile; its name becomes the image's.
    """
    if settings.image:
        return settings.image
    repository = ContainerRepository(
        name,
        ContainerRepositoryArgs(
            project=apis.project_with(*ContainerRepository.apis),
            location=settings.region,
            repository_id=f"images-{settings.stack.replace('_', '-')}"[:63].rstrip("-"),
            labels=labels,
            vulnerability_scanning=settings.scan_images,
        ),
    )
    build = ImageBuild(
        name,
        ImageBuildArgs(
            project=apis.project_with(*ImageBuild.apis),
            location=settings.region,
            context=context,
            repository=repository,
            image_name=context.name,
            labels=labels,
        ),
    )
    return Image(
        uri=build.image,
        fingerprint=build.fingerprint,
        repository=ImageRepository(
            project=repository.project, location=repository.location, name=repository.repository_id
        ),
    )
