"""A registry of the user's in front of those that publish images: the setting `registry`."""

import re

import pytest

from cloud.services.cloudbuild import BUILD
from engine.configuration import configuration
from engine.plan import Plan
from rehearsal.session import Rehearsal
from stacks import pins
from tests import plans
from tests.stacks.configuration import problems

MIRROR = "us-central1-docker.pkg.dev/mirror-project/images"
ELSEWHERE = "artifactory.example.com/docker"
READER = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
# Google's own registry, from which Cloud Build has its step.
OF_GOOGLE = pins.DOCKER_BUILDER
# The stacks that run images of others.
MIRRORED = plans.stacks_with("registry")


def images(plan: Plan) -> set[str]:
    """Every image in a plan that is named by digest. Kueue's chart joins the two parts itself."""
    text = plans.text(plan).replace('@sha256", "tag": "', "@sha256:")
    return set(re.findall(r"[\w.-]+\.[a-z]+/[\w./:-]+@sha256:[0-9a-f]{64}", text))


def published(stack: str, **settings: str) -> set[str]:
    """The images that the program names, but those of Google. The ones of the settings stay as they are."""
    configured = configuration(stack, settings).plain.values()
    return images(plans.shipped(stack, **settings)) - {OF_GOOGLE, *map(str, configured)}


@pytest.mark.parametrize("stack", MIRRORED)
def test_no_image_comes_from_where_it_is_published(stack: str) -> None:
    uris = published(stack, registry=MIRROR)
    assert not [uri for uri in uris if not uri.startswith(f"{MIRROR}/")]
    # The same images, by path and digest.
    paths = {uri.removeprefix(f"{MIRROR}/") for uri in uris}
    assert {uri.partition("/")[2] for uri in published(stack)} <= paths


@pytest.mark.parametrize("stack", plans.stacks_with("buildRegion"))
def test_the_build_starts_from_the_mirrored_base_and_is_the_same_image(stack: str) -> None:
    own, other = (plans.only(plan, BUILD.type).inputs for plan in (plans.shipped(stack), mirrored(stack)))
    assert other["image"] == own["image"]
    assert re.fullmatch(rf"{MIRROR}/library/python:[\w.-]+@sha256:[0-9a-f]{{64}}", other["base"])
    assert own["base"] == ""


# A stack whose image is built, and that serves too.
BUILDING = plans.stacks_with("imageUri", "servingImage")[-1]


def mirrored(stack: str) -> Plan:
    return plans.shipped(stack, registry=MIRROR)


@pytest.mark.parametrize("stack", ["l4-kueue", "serve"])
def test_nodes_may_read_the_mirror_before_a_pod_starts(stack: str) -> None:
    plan = mirrored(stack)
    (binding,) = [item for item in plan.resources if item.name.endswith("-nodes-pull-images")]
    assert binding.inputs["repository"] == "images" and binding.inputs["project"] == "mirror-project"


def test_the_build_may_read_the_mirror() -> None:
    (binding,) = [item for item in mirrored(BUILDING).resources if item.name.endswith("-builder-base")]
    assert binding.type == READER
    assert binding.inputs["role"] == "roles/artifactregistry.reader"


def test_nothing_is_granted_on_a_registry_that_is_not_google_s() -> None:
    plan = plans.shipped(BUILDING, registry=ELSEWHERE)
    assert not [item for item in plan.resources if item.name.endswith(("-builder-base", "pull-images"))]
    assert [uri for uri in images(plan) if uri.startswith(f"{ELSEWHERE}/vllm/")]


def test_images_of_the_settings_stay_what_they_are() -> None:
    own = f"docker.io/team/vllm@sha256:{'b' * 64}"
    plan = plans.shipped("serve", registry=MIRROR, servingImage=own)
    assert own in images(plan)


def test_a_stack_that_is_up_gets_a_mirror_without_a_build_and_without_another_run() -> None:
    settings = {"forceDestroy": "true"}
    with Rehearsal("cloudrun-vllm", settings) as rehearsal:
        rehearsal.up()
        run = plans.outputs(rehearsal)["run"]
        rehearsal.configure({**settings, "registry": MIRROR})
        rehearsal.up()
        steps = {name: step for step, name in rehearsal.last.steps}
        assert steps["cloudrun-vllm-service"] == "update"
        assert {steps.get(f"cloudrun-vllm-{name}") for name in ("build", "execution")} <= {None, "same"}
        assert len(rehearsal.builds.builds) == 1
        assert plans.outputs(rehearsal)["run"] == run
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


@pytest.mark.parametrize(
    "registry", ["mirror", "https://mirror.example/x", "mirror.example", "Mirror.example/x"]
)
def test_a_wrong_registry_is_one_message(registry: str) -> None:
    (problem,) = problems({"llm-stacks:registry": registry})
    assert problem.startswith(f"registry: {registry!r} is not own, or a registry with a path, such as")


@pytest.mark.parametrize("stack", MIRRORED)
def test_a_mirror_of_the_stack_s_own_has_every_image(stack: str) -> None:
    plan = plans.shipped(stack, registry="own")
    repositories = [item.inputs for item in plans.of_type(plan, ":Repository")]
    (virtual,) = [inputs for inputs in repositories if inputs.get("mode") == "VIRTUAL_REPOSITORY"]
    assert virtual["repositoryId"] == f"mirror-{stack}"
    place = f"{virtual['location']}-docker.pkg.dev/rehearsal-project/mirror-{stack}/"
    assert not [uri for uri in published(stack, registry="own") if not uri.startswith(place)]
    policies = virtual["virtualRepositoryConfig"]["upstreamPolicies"]
    # Artifact Registry asks the upstream with the highest priority first, and most images are on Docker Hub.
    assert max(policies, key=lambda policy: policy["priority"])["id"] == "docker-hub"


@pytest.mark.parametrize("stack", plans.mostly_slow(MIRRORED, quick=["l4-kueue"]))
def test_a_mirror_of_the_stack_s_own_comes_first_and_goes_with_the_stack(stack: str) -> None:
    settings = {**plans.known_settings(stack, forceDestroy="true"), "registry": "own"}
    with Rehearsal(stack, settings) as rehearsal:
        rehearsal.up()
        ends = ("-builder-base", f"-nodes-pull-mirror-{stack}")
        pulls = [item for item in plans.standing_plan(rehearsal).resources if item.name.endswith(ends)]
        assert pulls
        for item in pulls:
            assert any(urn.endswith(f"::{stack}-mirror") for urn in item.dependencies), item.name
        assert rehearsal.up().changed == 0
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


def test_layers_do_not_pile_up_in_a_mirror() -> None:
    repositories = plans.of_type(plans.shipped("l4-kueue", registry="own"), "repository:Repository")
    upstreams = [item.inputs for item in repositories if item.inputs.get("mode") == "REMOTE_REPOSITORY"]
    assert len(upstreams) == 2
    for inputs in upstreams:
        assert [policy["action"] for policy in inputs["cleanupPolicies"]] == ["DELETE"]
        assert inputs["cleanupPolicyDryRun"] is False
