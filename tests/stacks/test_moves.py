"""An `up` that replaces a cluster or a bucket with a name of the user's succeeds."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import BUCKET, CLUSTER
from rehearsal.session import Rehearsal
from tests import plans

ON_GKE = plans.stacks_with("clusterName")
NAMES = {"clusterName": "my-cluster", "bucketName": "bucket-of-a-test"}
PROJECT = {"gcp:project": "another-project"}
# Regions with every machine of the shipped stacks.
REGIONS = ("europe-west4", "us-central1")


def started(rehearsal: Rehearsal, start: str) -> bool:
    """Whether the only cluster has a name that begins so."""
    (cluster,) = rehearsal.cloud.of_type(CLUSTER)
    return cluster.id.rpartition("/")[2].startswith(start)


@pytest.mark.parametrize("stack", plans.mostly_slow(ON_GKE, quick=["tpu-maxtext"]))
def test_a_cluster_with_a_name_can_be_replaced(stack: str) -> None:
    elsewhere = next(region for region in REGIONS if region != plans.region_of(stack))
    replace_the_cluster(stack, [{"gcp:region": elsewhere}, PROJECT])


@pytest.mark.parametrize(
    ("stack", "move"),
    [
        pytest.param("tpu-maxtext", {"zone": "us-east5-a"}, marks=pytest.mark.slow),
        pytest.param("l4-kueue", {"clusterMode": "autopilot"}, marks=pytest.mark.slow),
    ],
)
def test_a_cluster_with_a_name_can_be_replaced_by_a_setting_of_its_own(
    stack: str, move: dict[str, str]
) -> None:
    replace_the_cluster(stack, [move])


def replace_the_cluster(stack: str, moves: list[dict[str, str]]) -> None:
    # Some of the moves replace the bucket, too.
    unnamed = plans.known_settings(stack, **plans.STANDING_SETTINGS)
    settings = {**unnamed, **plans.known_settings(stack, **NAMES)}
    with Rehearsal(stack, settings) as rehearsal:
        rehearsal.up()
        for move in moves:
            rehearsal.configure({**settings, **move})
            (before,) = rehearsal.cloud.of_type(CLUSTER)
            rehearsal.up()
            assert before not in list(rehearsal.cloud.of_type(CLUSTER))
            assert started(rehearsal, "my-cluster-")
            assert not rehearsal.preview().changed
        for name in ("its-other-name", None, "my-cluster"):
            named = {"clusterName": name} if name else {}
            rehearsal.configure({**unnamed, **moves[-1], **named})
            rehearsal.up()
            assert started(rehearsal, name or stack)
            assert not rehearsal.preview().changed
        rehearsal.remove()
        assert not rehearsal.cloud.items


def test_a_bucket_that_gets_a_name_goes_first_unless_it_is_protected() -> None:
    settings = {"imageUri": plans.IMAGE}
    with Rehearsal("a4-accelerate", settings) as rehearsal:
        rehearsal.up()
        (before,) = rehearsal.cloud.of_type(BUCKET)
        rehearsal.configure({**settings, "bucketName": "bucket-of-a-test"})
        with pytest.raises(RehearsalError, match="protect"):
            rehearsal.preview()
        with pytest.raises(RehearsalError, match="protect"):
            rehearsal.up()
        assert [*rehearsal.cloud.of_type(BUCKET)] == [before]
        rehearsal.configure({**settings, "forceDestroy": "true"})
        rehearsal.up()
        rehearsal.configure({**settings, "forceDestroy": "true", "bucketName": "bucket-of-a-test"})
        rehearsal.up()
        bucket = [step for step, name in rehearsal.last.steps if name == before.name]
        assert bucket == ["delete-replaced", "replace", "create-replacement"]
        assert not rehearsal.preview().changed
