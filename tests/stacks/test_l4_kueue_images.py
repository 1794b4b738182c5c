"""From which repositories the nodes of l4-kueue may pull the images of the servers."""

import pytest

from engine.plan import Plan
from stacks import pins
from tests import plans

STACK = "l4-kueue"
OTHER = f"us-docker.pkg.dev/rehearsal-project/servers/vllm@sha256:{'b' * 64}"
# NAMESAKE is in another repository of the same name, IN_OWN in the repository that the stack creates.
NAMESAKE = f"europe-docker.pkg.dev/rehearsal-project/images/vllm@sha256:{'b' * 64}"
IN_OWN = f"us-central1-docker.pkg.dev/rehearsal-project/images-l4-kueue/vllm@sha256:{'b' * 64}"


def pullers(plan: Plan) -> set[str]:
    """The names of the bindings with which nodes may pull images."""
    readers = "roles/artifactregistry.reader"
    return {
        member.name
        for member in plans.of_type(plan, ":RepositoryIamMember")
        if member.inputs["role"] == readers
    }


@pytest.mark.parametrize(
    ("image", "more"),
    [
        (pins.VLLM_IMAGE, set()),
        (OTHER, {"l4-kueue-nodes-pull-servers"}),
        (NAMESAKE, {"l4-kueue-nodes-pull-rehearsal-project-europe-images"}),
    ],
)
def test_nodes_may_pull_the_server_s_image_from_another_repository(image: str, more: set[str]) -> None:
    plan = plans.shipped(STACK, imageUri=plans.IMAGE, servingImage=image)
    assert pullers(plan) == {"l4-kueue-nodes-pull-images", *more}


def test_nodes_need_one_role_for_two_images_in_the_stacks_own_repository() -> None:
    assert pullers(plans.shipped(STACK, servingImage=IN_OWN)) == {"l4-kueue-nodes-pull-images-l4-kueue"}
