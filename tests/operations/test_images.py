"""`preflight` looks images up where they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from operations.findings import Level
from stacks import pins
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.conftest import Check
from tests.operations.good_project import CONFIG, GoodProject, blob, image_config, image_manifest, manifest
from tests.operations.google_server import Page
from tests.operations.planned import IMAGE

OK, PROBLEM = Level.FINE, Level.PROBLEM
OWN = ("own", f"imageUri={IMAGE}")


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
    assert set(good.server.shown[manifest(IMAGE)]) == {"Bearer of-google"}
    assert good.server.shown[manifest(pins.VLLM_IMAGE)] == [None, "Bearer anybody"]


def test_a_login_of_the_persons_netrc_is_sent_to_no_registry(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr("operations.google.clients.Clients.token", lambda _: "of-google")
    check(good.plan(NEUTRAL_RUN, f"imageUri={IMAGE}"), "images")
    assert set(good.server.shown[manifest(IMAGE)]) == {"Bearer of-google"}
    assert good.server.shown[manifest(pins.VLLM_IMAGE)] == [None, "Bearer anybody"]


def test_images_of_a_mirror_that_the_stack_will_create_are_not_looked_up(
    good: GoodProject, check: Check
) -> None:
    results = check(good.plan(NEUTRAL_RUN, f"imageUri={IMAGE}", "registry=own"), "images")
    assert [(result.level, result.what) for result in results] == [
        (OK, "the stack's own mirror will have 1 of the images"),
        (OK, f"{IMAGE} exists"),
    ]


def multi_platform(**digests: str) -> dict[str, object]:
    """The index of an image for several architectures, with a build's attestation in it."""
    listed = [
        {"platform": {"os": "linux", "architecture": name}, "digest": digest}
        for name, digest in digests.items()
    ]
    attestation = {"platform": {"os": "unknown", "architecture": "unknown"}, "digest": "sha256:0"}
    return {"manifests": [*listed, attestation]}


def plant(good: GoodProject, described: dict[str, object], config: dict[str, object] | None = None) -> None:
    """Lets the registry say this about the image of the stack own."""
    good.server.plant_page(manifest(IMAGE), Page(content=described))
    good.server.plant_page(blob(IMAGE), Page(content=config or image_config()))


@pytest.mark.parametrize(
    ("described", "config", "platforms"),
    [
        (image_manifest(), image_config(architecture="arm64"), "linux/arm64"),
        (multi_platform(arm64="sha256:1", s390x="sha256:2"), None, "linux/arm64, linux/s390x"),
        (multi_platform(), None, "no platform"),
    ],
)
def test_an_image_for_other_machines_is_a_problem_with_the_command_that_builds_it(
    described: dict[str, object],
    config: dict[str, object] | None,
    platforms: str,
    good: GoodProject,
    check: Check,
) -> None:
    plan = good.plan(*OWN)
    plant(good, described, config)
    exists, platform = check(plan, "images")
    assert (exists.level, platform.level) == (OK, PROBLEM)
    assert platform.what == f"{IMAGE} is for {platforms}, and the machines are linux/amd64"
    assert platform.remedy.startswith(
        "build it with `docker buildx build --platform linux/amd64`, then pulumi"
    )


def test_the_user_of_an_image_for_several_platforms_is_read_for_the_machines(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan(*OWN)
    plant(good, multi_platform(arm64="sha256:1", amd64="sha256:2"), image_config(user="root:root"))
    amd64 = f"{manifest(IMAGE).rpartition('/')[0]}/sha256:2"
    good.server.plant_page(amd64, Page(content=image_manifest()))
    exists, user = check(plan, "images")
    assert (exists.level, user.level) == (OK, Level.WARNING)
    assert user.what.endswith("is made for root, and its pods run as user 1000, who writes to /tmp alone")
    assert user.remedy.endswith(f"; pulumi config set asRoot true --stack {plan.stack} runs it as root")


@pytest.mark.parametrize(
    ("user", "more", "warns"),
    [
        ("", (), True),
        ("0:0", (), True),
        ("1000", (), False),
        ("rootless", (), False),
        ("root", ("asRoot=true",), False),
    ],
)
def test_an_image_that_is_made_for_root_is_a_warning_unless_it_runs_as_root(
    user: str, more: tuple[str, ...], warns: bool, good: GoodProject, check: Check
) -> None:
    plan = good.plan(*OWN, *more)
    plant(good, image_manifest(), image_config(user=user))
    assert [finding.level for finding in check(plan, "images")] == [OK, *[Level.WARNING] * warns]


def test_a_part_that_is_in_a_bucket_is_read_there_without_the_registrys_token(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.google.clients.Clients.token", lambda _: "of-google")
    plan = good.plan(*OWN)
    there = {"Location": f"{good.server.address}/a-bucket/{CONFIG}"}
    good.server.plant_page(blob(IMAGE), Page(code=307, headers=there))
    good.server.plant_page(f"a-bucket/{CONFIG}", Page(content=image_config(user="0")))
    assert [finding.level for finding in check(plan, "images")] == [OK, Level.WARNING]
    assert good.server.shown[blob(IMAGE)] == ["Bearer of-google"]
    assert good.server.shown[f"a-bucket/{CONFIG}"] == [None]


@pytest.mark.parametrize(
    ("page", "address"),
    [
        (Page(content={"config": {}}), manifest(IMAGE)),
        (Page(content=[]), manifest(IMAGE)),
        (Page(content={"manifests": [{"digest": "sha256:1"}]}), manifest(IMAGE)),
        (Page(content={"os": "linux"}), blob(IMAGE)),
        (Page(code=404), blob(IMAGE)),
    ],
)
def test_a_registry_that_answers_in_another_form_is_not_checked(
    page: Page, address: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(*OWN)
    good.server.plant_page(address, page)
    assert [finding.level for finding in check(plan, "images")] == [OK, Level.UNKNOWN]
