"""Images are built once per content, on the real engine, against a Cloud Build server on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.build_context import BuildContext
from rehearsal import Rehearsal
from rehearsal.cloud_build_server import Course
from rehearsal.errors import RehearsalError
from tests.components.building import SETTINGS, Building, rehearse

PREFIX = "us-central1-docker.pkg.dev/my-project/images/finetune"
BUILD = "pulumi-python:dynamic/cloudbuild:Build"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """After one `up`."""
    with rehearse(tmp_path_factory.mktemp("project")) as (rehearsal, _):
        rehearsal.up()
        yield rehearsal


def resource(rehearsal: Rehearsal, type_token: str) -> dict[str, Any]:
    resources = rehearsal.state()["deployment"]["resources"]
    [found] = [each for each in resources if each["type"] == type_token]
    return found


def expected_image(program: Building) -> str:
    return f"{PREFIX}:{BuildContext(program.context).digest}"


def change(program: Building) -> None:
    (program.context / "train.py").write_text("print('changed')\n")


def test_a_preview_shows_the_tag_and_builds_nothing(tmp_path: Path) -> None:
    with rehearse(tmp_path) as (rehearsal, program):
        [step] = [each for each in rehearsal.preview().resources if each.type == BUILD]
        assert step.inputs["image"] == expected_image(program)
        assert rehearsal.builds.calls == []


def test_an_image_is_built_once_per_content(tmp_path: Path) -> None:
    with rehearse(tmp_path) as (rehearsal, program):
        rehearsal.up()
        [first] = rehearsal.builds.builds
        outputs = resource(rehearsal, "pulumi:pulumi:Stack")["outputs"]
        assert outputs["image"] == f"{PREFIX}@{first['results']['images'][0]['digest']}"

        assert rehearsal.up().changed == 0
        assert rehearsal.refresh().changed == 0
        program.labels, program.machine_type = {"changed": "yes"}, "E2_HIGHCPU_32"
        assert rehearsal.up().changes["update"] == 2
        assert len(rehearsal.builds.builds) == 1

        change(program)
        rehearsal.up()
        assert rehearsal.up().changed == 0
        assert [build["images"] for build in rehearsal.builds.builds[1:]] == [[expected_image(program)]]

        rehearsal.destroy()
        left = [item.type for item in rehearsal.cloud.items if item.type != "gcp:projects/service:Service"]
        assert left == []


def test_a_build_that_fails_ends_the_deployment_with_its_message_and_is_tried_again(tmp_path: Path) -> None:
    failing = Course(states=["FAILURE"], detail="Build step failed", log=["no such file"])
    with rehearse(tmp_path) as (rehearsal, _):
        rehearsal.builds.next_build(failing)
        with pytest.raises(RehearsalError) as failed:
            rehearsal.up()
        assert "was not built" in str(failed.value)
        assert "| no such file" in str(failed.value)
        assert "Traceback" not in str(failed.value)
        assert rehearsal.up().changes["create"] == 1
        assert len(rehearsal.builds.builds) == 2


def test_the_state_holds_no_secret_and_no_path_of_this_machine(built: Rehearsal) -> None:
    build = resource(built, BUILD)
    archive = resource(built, "gcp:storage/bucketObject:BucketObject")
    for kept in (build, archive):
        values = [kept["inputs"], kept["outputs"]]
        assert not [text for text in _texts(values) if text.startswith(("/", "~"))]
        assert str(Path.cwd()) not in json.dumps(values)
        assert SETTINGS["hfToken"] not in json.dumps(values)
        assert "ciphertext" not in json.dumps(values)
    assert archive["inputs"]["source"]["path"].startswith(".build/finetune-")


def test_the_build_may_do_no_more_than_it_must(built: Rehearsal) -> None:
    [build] = built.builds.builds
    account = build["serviceAccount"].rpartition("/")[2]
    granted = {
        (item.type.split(":")[-1], item.inputs["role"])
        for item in built.cloud.items
        if account in str(item.inputs.get("member"))
    }
    assert granted == {
        ("IAMMember", "roles/logging.logWriter"),
        ("BucketIAMMember", "roles/storage.objectViewer"),
        ("RepositoryIamMember", "roles/artifactregistry.writer"),
    }


def test_the_build_waits_for_everything_it_is_allowed(built: Rehearsal) -> None:
    waited = {urn.rpartition("::")[2] for urn in resource(built, BUILD)["dependencies"]}
    assert {"test-builder-source", "test-builder-log", "test-finetune-builder-writer"} <= waited


def test_the_source_is_private_and_goes_with_the_stack(built: Rehearsal) -> None:
    bucket = resource(built, "gcp:storage/bucket:Bucket")["inputs"]
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["forceDestroy"] is True
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 0}


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _texts(child)
