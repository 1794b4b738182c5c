"""The fake Cloud Build accepts what the published API accepts, and rejects the rest as it does."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.rehearsal.scripted_google import ScriptedCloudBuild

BUILDS = "/v1/projects/my-project/locations/us-central1/builds"
STORAGE = {"bucket": "source", "object": "context.tar.gz", "generation": "17"}
BUILD = {"source": {"storageSource": STORAGE}, "steps": [{"name": "docker"}], "images": ["image:tag"]}


@pytest.fixture
def server() -> Iterator[ScriptedCloudBuild]:
    with ScriptedCloudBuild() as server:
        yield server


def build_with(path: str, value: Any) -> dict[str, Any]:
    return {**BUILD, path: value}


def test_a_build_is_an_operation_whose_metadata_is_the_build(server: ScriptedCloudBuild) -> None:
    code, operation = server.answer("POST", BUILDS, BUILD)
    assert code == 200
    assert operation["metadata"]["build"]["status"] == "QUEUED"
    assert operation["metadata"]["build"]["images"] == ["image:tag"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (build_with("imagez", []), 'Unknown name "imagez"'),
        (build_with("source", {"storageSource": {**STORAGE, "objekt": "x"}}), 'Unknown name "objekt"'),
        (build_with("source", {"storageSource": {"bucket": "source"}}), "object is required"),
        (build_with("source", {"storageSource": {**STORAGE, "generation": 17}}), "is no int64"),
        (build_with("steps", []), "steps is required"),
        (build_with("steps", [{"args": ["build"]}]), "name is required"),
        (build_with("images", "image:tag"), "is no list"),
        (build_with("timeout", "one hour"), "is no google-duration"),
        (build_with("options", {"machineType": "H200"}), "'H200' is no string"),
    ],
)
def test_what_the_api_does_not_take_is_rejected(
    server: ScriptedCloudBuild, body: dict[str, Any], complaint: str
) -> None:
    code, answer = server.answer("POST", BUILDS, body)
    assert code == 400
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert complaint in answer["error"]["message"]
    assert server.builds == []


@pytest.mark.parametrize(
    ("verb", "url"),
    [
        ("GET", "/v1/projects/my-project/builds/some-id"),
        ("DELETE", f"{BUILDS}/some-id"),
        ("GET", "/v2/projects/my-project/locations/us-central1/builds"),
        ("GET", f"{BUILDS}/some-id"),
    ],
)
def test_what_is_not_there_is_not_found(server: ScriptedCloudBuild, verb: str, url: str) -> None:
    code, answer = server.answer(verb, url, {})
    assert code == 404
    assert answer["error"]["status"] == "NOT_FOUND"


def test_an_unknown_query_parameter_is_rejected(server: ScriptedCloudBuild) -> None:
    code, answer = server.answer("GET", f"{BUILDS}?page_size=1", {})
    assert code == 400
    assert 'Unknown name "page_size"' in answer["error"]["message"]


def test_a_build_that_has_ended_cannot_be_cancelled(server: ScriptedCloudBuild) -> None:
    _, operation = server.answer("POST", BUILDS, BUILD)
    build = f"{BUILDS}/{operation['metadata']['build']['id']}"
    assert server.answer("GET", build, {})[1]["status"] == "SUCCESS"
    code, answer = server.answer("POST", f"{build}:cancel", {})
    assert code == 400
    assert answer["error"]["status"] == "FAILED_PRECONDITION"
