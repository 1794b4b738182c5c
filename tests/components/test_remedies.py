"""Every error that is known from Google, Kubernetes and their providers is answered with its own remedy."""

import re

import pytest

from components.base.remedies import what_to_do
from rehearsal.fakes.faults import KINDS
from tests.components.error_kinds import BUCKET, BUILD, CLUSTER, NAMESPACE, NETWORK, POOL
from tests.components.error_texts import TEXTS
from tests.components.request_error_texts import REQUEST_TEXTS
from tests.components.setting_error_texts import SETTING_TEXTS

ALL_TEXTS = (*TEXTS, *SETTING_TEXTS, *REQUEST_TEXTS)


@pytest.mark.parametrize(("kind", "message", "words"), ALL_TEXTS)
def test_an_error_is_answered_with_its_own_remedy_and_no_other(kind: str, message: str, words: str) -> None:
    remedy = what_to_do(kind, message, "mine")
    assert words in remedy
    others = {other for _, _, other in ALL_TEXTS if other != words}
    assert not [other for other in others if other in remedy]


@pytest.mark.parametrize("word", ["?timeout=32s", "/quota/forbidden", "#Error%20403", "/already%20exists"])
def test_the_words_of_an_address_say_nothing(word: str) -> None:
    assert what_to_do(NETWORK, f'Get "https://compute.googleapis.com/a{word}": EOFish', "mine") == ""
    unreachable = f'cluster is unreachable: Get "https://1.2.3.4/b{word}": dial tcp: connection refused'
    assert "API server cannot be reached" in what_to_do(NAMESPACE, unreachable, "mine")


def test_the_next_command_is_the_one_that_ended() -> None:
    message = "timeout while waiting for state to become 'DONE'"
    assert "`pulumi up --refresh`" in what_to_do(CLUSTER, message, "mine")
    assert "`pulumi destroy --refresh`" in what_to_do(CLUSTER, message, "mine", "pulumi destroy")


@pytest.mark.parametrize(
    "reason", ["Error waiting for creating GKE cluster: it is unhealthy", "Error 503: x"]
)
def test_a_cluster_that_gke_created_and_calls_failed_gets_the_command_that_replaces_it(reason: str) -> None:
    """The provider keeps it, and finds nothing to change about it in the next `up`."""
    urn = "urn:pulumi:mine::llm-stacks::llm-stacks:components:Cluster$gcp:container/cluster:Cluster::c"
    message = f"1 error occurred:\n\t* creating {urn}: 1 error occurred:\n\t* {reason}\n\n"
    assert f"`pulumi up --replace '{urn}'` makes it anew" in what_to_do(CLUSTER, message, "mine")
    assert "--replace" not in what_to_do(CLUSTER, reason, "mine")
    bucket = message.replace("gcp:container/cluster:Cluster", BUCKET)
    assert "--replace" not in what_to_do(BUCKET, bucket, "mine")


STOCKOUT = (
    "Error 503: The zone 'us-central1-b' does not have enough resources available to fulfill the request."
)


@pytest.mark.parametrize(
    ("message", "zones"),
    [
        (
            f'{STOCKOUT} details: {{"zonesAvailable": "us-central1-a,us-central1-f"}}',
            "us-central1-a, us-central1-f",
        ),
        (
            f"{STOCKOUT} metadatas: map[vmType:a2-highgpu-1g zonesAvailable:us-central1-a zone:b]",
            "us-central1-a",
        ),
        (
            "A g2-standard-24 VM instance is currently unavailable in the us-central1-a zone. Consider "
            "trying your request in the us-central1-b, us-central1-c zone(s), which currently has capacity.",
            "us-central1-b, us-central1-c",
        ),
    ],
)
def test_the_zones_that_a_stockout_names_are_told(message: str, zones: str) -> None:
    assert f"no such machines left (Google has some in {zones}): wait" in what_to_do(POOL, message, "mine")


def test_a_stockout_without_zones_names_none() -> None:
    assert "no such machines left: wait" in what_to_do(POOL, f'{STOCKOUT} zonesAvailable: ""', "mine")


def test_what_nobody_knows_gets_no_advice() -> None:
    for kind in (NETWORK, NAMESPACE, BUILD):
        assert what_to_do(kind, "the rehearsal lets the creation of x fail", "mine") == ""


@pytest.mark.parametrize("fault", KINDS)
def test_every_fault_of_a_rehearsal_but_ours_is_answered_with_the_next_command(fault: str) -> None:
    remedy = what_to_do(NETWORK, KINDS[fault], "mine")
    is_googles = fault not in ("refused", "orphan")
    assert bool(re.search("`pulumi (up|import|up --refresh)`", remedy)) == is_googles
