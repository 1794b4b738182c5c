"""Images are built once per content, on the real engine, against a Cloud Build server on loopback."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.base.project_services import ProjectServices, ProjectServicesArgs
from components.cloud_build.context import BuildContext
from components.image.image import ContainerRepository, ContainerRepositoryArgs
from components.image.image_build import ImageBuild, ImageBuildArgs
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests.rehearsal.scripted_google import BuildLifecycle, ScriptedCloudBuild

PREFIX = "us-central1-docker.pkg.dev/my-project/images/finetune"
BUILD = "pulumi-python:dynamic/cloudbuild:Build"
# `scenario` and the token are required keys of the project; the program does not read them.
SETTINGS = {"scenario": "building", "hfToken": "hf_planted_in_a_test", "gcp:project": "my-project"}


@dataclass
class Building:
    """A program: a repository, and an image in it.

    Args:
        context: Folder with the Dockerfile.
        labels: Labels of the repository.
        build_region: Where it is built.
    """

    context: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    build_region: str = "us-central1"

    def __call__(self) -> None:
        services = ProjectServices("test", ProjectServicesArgs(project="my-project"))
        repository = ContainerRepository(
            "test",
            ContainerRepositoryArgs(
                project=services.project_with(*ContainerRepository.apis),
                location="us-central1",
                repository_id="images",
                labels=self.labels,
            ),
        )
        build = ImageBuild(
            "test",
            ImageBuildArgs(
                project=services.project_with(*ImageBuild.apis),
                location="us-central1",
                build_region=self.build_region,
                docker_builder="gcr.io/cloud-builders/docker",
                context=self.context,
                repository=repository,
                image_name="finetune",
                labels={},
            ),
        )
        pulumi.export("image", build.image.uri)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Building:
    """In a project directory of its own, with a context of two files."""
    monkeypatch.chdir(tmp_path)
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\n")
    (context / "train.py").write_text("print()\n")
    return Building(context)


@pytest.fixture
def rehearsal(program: Building) -> Iterator[Rehearsal]:
    rehearsal = Rehearsal("building", SETTINGS, program)
    rehearsal.builds = ScriptedCloudBuild()
    with rehearsal:
        yield rehearsal


def resource(rehearsal: Rehearsal, type_token: str) -> dict[str, Any]:
    resources = rehearsal.state()["deployment"]["resources"]
    (resource,) = [resource for resource in resources if resource["type"] == type_token]
    return resource


def test_an_image_is_built_once_per_content(rehearsal: Rehearsal, program: Building) -> None:
    [step] = [planned for planned in rehearsal.preview().resources if planned.type == BUILD]
    assert step.inputs["image"] == f"{PREFIX}:{BuildContext(program.context).digest}"
    assert rehearsal.builds.builds == []

    rehearsal.up()
    [first] = rehearsal.builds.builds
    outputs = resource(rehearsal, "pulumi:pulumi:Stack")["outputs"]
    assert outputs["image"] == f"{PREFIX}@{first['results']['images'][0]['digest']}"
    _is_fit_to_keep(rehearsal)

    assert rehearsal.up().changed == 0
    assert rehearsal.refresh().changed == 0
    program.labels = {"changed": "yes"}
    assert rehearsal.up().changes["update"] == 1
    assert len(rehearsal.builds.builds) == 1

    (program.context / "train.py").write_text("print('changed')\n")
    rehearsal.up()
    assert rehearsal.up().changed == 0
    changed = f"{PREFIX}:{BuildContext(program.context).digest}"
    assert [build["images"] for build in rehearsal.builds.builds[1:]] == [[changed]]

    rehearsal.destroy()
    left = [item.type for item in rehearsal.cloud.items if item.type != "gcp:projects/service:Service"]
    assert left == []


def test_another_build_machine_changes_nothing_that_exists(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsal.up()
    monkeypatch.setattr("components.cloud_build.build.MACHINE", "E2_HIGHCPU_32")
    assert rehearsal.preview().changed == rehearsal.up().changed == 0


def test_another_region_builds_the_next_image_for_the_same_repository_and_nothing_again(
    rehearsal: Rehearsal, program: Building
) -> None:
    rehearsal.up()
    program.build_region = "europe-west1"
    assert rehearsal.preview().changed == rehearsal.up().changed == 0
    assert len(rehearsal.builds.builds) == 1
    (program.context / "train.py").write_text("print('changed')\n")
    rehearsal.up()
    first, second = rehearsal.builds.builds
    assert "/locations/europe-west1/" in second["name"]
    assert second["images"][0].rpartition(":")[0] == first["images"][0].rpartition(":")[0]


def test_a_build_that_fails_ends_the_deployment_with_its_message_and_is_tried_again(
    rehearsal: Rehearsal,
) -> None:
    failing = BuildLifecycle(states=["FAILURE"], detail="Build step failed", log=["no such file"])
    assert isinstance(rehearsal.builds, ScriptedCloudBuild)
    rehearsal.builds.next_build(failing)
    with pytest.raises(RehearsalError) as failed:
        rehearsal.up()
    assert "was not built" in str(failed.value)
    assert "| no such file" in str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert rehearsal.up().changes["create"] == 1
    assert len(rehearsal.builds.builds) == 2


def _is_fit_to_keep(rehearsal: Rehearsal) -> None:
    """The state holds no secret and no path of this machine."""
    build = resource(rehearsal, BUILD)
    archive = resource(rehearsal, "gcp:storage/bucketObject:BucketObject")
    for kept in (build, archive):
        values = [kept["inputs"], kept["outputs"]]
        assert not [text for text in _texts(values) if text.startswith(("/", "~"))]
        assert str(Path.cwd()) not in json.dumps(values)
        assert SETTINGS["hfToken"] not in json.dumps(values)
        assert "ciphertext" not in json.dumps(values)
    assert archive["inputs"]["source"]["path"].startswith(".build/finetune-")


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _texts(child)
