"""The beginning of a name alone says nothing: anybody may call a machine `gke-CLUSTER-something`."""

import pytest

from operations.google.clients import Clients
from operations.state import State
from tests.operations.past_stack import PastStack
from tests.operations.project import ZONE, Project
from tests.operations.test_leftovers import footprint, left_of

GKE = {"goog-k8s-cluster-name": "{cluster}"}


@pytest.mark.parametrize(
    ("collection", "name", "labels", "network", "sure"),
    [
        ("instances", "gke-{cluster}-jane-debug", {"owner": "jane"}, "default", False),
        ("instances", "gke-{cluster}-jane-debug", {}, "default", False),
        ("instances", "gke-{cluster}-l4-pool-0d4c6f8a-x7k2", {"owner": "jane"}, "default", False),
        ("instances", "gke-{cluster}-l4-pool-0d4c6f8a-x7k2", GKE, "default", True),
        ("firewalls", "gke-{cluster}-debug", {}, "default", False),
        ("firewalls", "gke-{cluster}-debug", {}, "{network}", True),
        ("firewalls", "gke-{cluster}-0d4c6f8a-all", {}, "default", True),
    ],
)
def test_a_resource_is_surely_of_gke_by_its_label_network_or_digits(
    collection: str,
    name: str,
    labels: dict[str, str],
    network: str,
    sure: bool,
    clients: Clients,
    neutral: PastStack,
    project: Project,
) -> None:
    names = {"cluster": neutral.name(":Cluster"), "network": neutral.name(":Network")}
    fields: dict[str, object] = {"network": network.format(**names)}
    if collection == "instances":
        of_gke = {key: value.format(**names) for key, value in labels.items()}
        fields |= {"zone": ZONE, "labels": of_gke}
    project.add(collection, name.format(**names), **fields)
    wanted = footprint(neutral.plan, State(), [neutral.alive], [])
    (leftover,) = left_of(clients, wanted)
    assert leftover.belonging.sure is sure
