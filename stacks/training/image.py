"""The image in which a stack trains: an image of the settings, or one that the stack builds."""

from dataclasses import replace

from components.image.image import ContainerRepository, ContainerRepositoryArgs, Image
from components.image.image_build import ImageBuild, ImageBuildArgs
from stacks import pins
from stacks.platform import StackContext
from stacks.training.settings import TrainingImage


def training_image(stack: StackContext, image: TrainingImage) -> Image:
    """The image from the settings, or one that the stack builds."""
    if image.image:
        return image.image
    project = stack.project
    repository = ContainerRepository(
        stack.name,
        ContainerRepositoryArgs(
            project=stack.project_for(ContainerRepository),
            location=stack.region,
            repository_id=f"images-{stack.label.replace('_', '-')}"[:63].rstrip("-"),
            labels=stack.labels,
            kms_key=project.kms_key,
        ),
    )
    return ImageBuild(
        stack.name,
        ImageBuildArgs(
            project=stack.project_for(ImageBuild),
            location=stack.region,
            build_region=image.region_of_build(project),
            pool=image.build_pool or "",
            kms_key=project.kms_key,
            account=image.build_account,
            docker_builder=pins.DOCKER_BUILDER,
            mirrored=project.mirrored if project.registry else None,
            mirror=stack.mirrored,
            context=image.folder,
            repository=repository,
            image_name=image.folder.name,
            labels=stack.labels,
            texts=image.replaced_texts,
        ),
    ).image


def from_same_repository(stack: StackContext, image: Image, own: Image) -> bool:
    """Whether an image of the settings is in the repository of the stack's own image.

    The repository that the stack creates has an output as its project.
    """
    if not image.repository or not own.repository:
        return False
    project = own.repository.project if isinstance(own.repository.project, str) else stack.project.project
    return image.repository == replace(own.repository, project=project)
