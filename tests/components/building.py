"""A program that builds an image, for the tests of the components that take part."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pulumi

from components.container_repository import ContainerRepository, ContainerRepositoryArgs
from components.image_build import ImageBuild, ImageBuildArgs
from components.project_services import ProjectServices, ProjectServicesArgs
from rehearsal import Rehearsal

# `scenario` and the token are required keys of the project; the program does not read them.
SETTINGS = {"scenario": "building", "hfToken": "hf_planted_in_a_test"}


@dataclass
class Building:
    """A repository with a reader, and an image in it.

    Args:
        context: Folder with the Dockerfile.
        labels: Labels of the repository.
        machine_type: What the build runs on.
        scanned: Whether images are scanned.
    """

    context: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    machine_type: str = "E2_HIGHCPU_8"
    scanned: bool = False

    def __call__(self) -> None:
        services = ProjectServices("test", ProjectServicesArgs(project="my-project"))
        project = services.project_with(*ContainerRepository.apis, *ImageBuild.apis)
        repository = ContainerRepository(
            "test",
            ContainerRepositoryArgs(
                project=project,
                location="us-central1",
                repository_id="images",
                labels=self.labels,
                vulnerability_scanning=self.scanned,
            ),
        )
        build = ImageBuild(
            "test",
            ImageBuildArgs(
                project=project,
                location="us-central1",
                context=self.context,
                repository=repository,
                image_name="finetune",
                labels={},
                machine_type=self.machine_type,
            ),
        )
        pulumi.export("image", build.image)


@contextmanager
def rehearse(directory: Path) -> Generator[tuple[Rehearsal, Building]]:
    """A rehearsal of the program in a project directory of its own, with a context of two files."""
    context = directory / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\n")
    (context / "train.py").write_text("print()\n")
    program, before = Building(context), Path.cwd()
    os.chdir(directory)
    try:
        with Rehearsal("building", SETTINGS, program) as rehearsal:
            yield rehearsal, program
    finally:
        os.chdir(before)
