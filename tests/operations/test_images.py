"""`preflight` looks images up where they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from operations.findings import Level
from stacks import pins
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject, manifest
from tests.operations.google_server import Page
from tests.operations.planned import IMAGE

OK, PROBLEM = Level.FINE, Level.PROBLEM


@pytest.mark.parametrize(
    ("image", "host", "asked"),
    [
        ("team/trainer@sha256:0", "registry-1.docker.io", "team/trainer/manifests/sha256:0"),
        ("python@sha256:0", "registry-1.docker.io", "library/python/manifests/sha256:0"),
        ("docker.io/team/trainer:v1@sha256:0", "registry-1.docker.io", "team/trainer/manifests/sha256:0"),
        ("registry:5000/a/b/c:v1", "registry:5000", "a/b/c/manifests/v1"),
        ("localhost/trainer", "localhost", "trainer/manifests/latest"),
        ("eu.gcr.io/team/trainer@sha256:0", "eu.gcr.io", "team/trainer/manifests/sha256:0"),
    ],
)
def test_an_image_of_whichever_form_is_looked_up_in_its_registry(
    image: str, host: str, asked: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL)
    job = next(item for item in plan.resources if item.inputs.get("kind") == "Job")
    pod = {"spec": {"containers": [{"image": image}]}}
    plan = replace(plan, resources=(replace(job, inputs={"kind": "Job", "spec": {"template": pod}}),))
    (missing,) = check(plan, "images")
    assert missing.level is PROBLEM and missing.what.startswith(f"{image} does not exist")
    # It is none of the stack's settings.
    assert "imageUri" not in missing.remedy
    good.server.plant_page(f"registry/{host}/v2/{asked}", Page(content={}))
    (results,) = check(plan, "images")
    assert (results.level, results.what) == (OK, f"{image} exists")


def test_googles_token_is_shown_to_artifact_registry_and_to_no_other_registry(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.google.clients.Clients.token", lambda _: "of-google")
    results = check(good.plan(NEUTRAL_RUN, f"imageUri={IMAGE}"), "images")
    assert [item.level for item in results] == [OK, OK]
    assert good.server.shown[manifest(IMAGE)] == ["Bearer of-google"]
    assert good.server.shown[manifest(pins.VLLM_IMAGE)] == [None, "Bearer anybody"]


def test_a_login_of_the_persons_netrc_is_sent_to_no_registry(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr("operations.google.clients.Clients.token", lambda _: "of-google")
    check(good.plan(NEUTRAL_RUN, f"imageUri={IMAGE}"), "images")
    assert good.server.shown[manifest(IMAGE)] == ["Bearer of-google"]
    assert good.server.shown[manifest(pins.VLLM_IMAGE)] == [None, "Bearer anybody"]


def test_images_of_a_mirror_that_the_stack_will_create_are_not_looked_up(
    good: GoodProject, check: Check
) -> None:
    results = check(good.plan(NEUTRAL_RUN, f"imageUri={IMAGE}", "registry=own"), "images")
    assert [(result.level, result.what) for result in results] == [
        (OK, "the stack's own mirror will have 1 of the images"),
        (OK, f"{IMAGE} exists"),
    ]
