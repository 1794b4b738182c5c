"""What GKE leaves of its networks for the network cards of A4 nodes."""

from operations.google.clients import Clients
from operations.state import State
from tests.operations.google_server import GoogleServer
from tests.operations.past_stack import PastStack
from tests.operations.project import REGION, Project
from tests.operations.test_leftovers import footprint, left_of


def test_networks_for_the_cards_of_a4_nodes_are_found_where_no_cluster_is_left(
    clients: Clients, neutral: PastStack, project: Project
) -> None:
    network = "gke-anp-1f2e3d4c-net-1"
    project.add("networks", network)
    project.add("subnetworks", f"{network}-subnet", region=REGION, network=network)
    project.add("firewalls", "allow-inside", network=network)
    left = left_of(clients, footprint(neutral.plan, State(), [neutral.alive], []))
    assert {leftover.candidate.name for leftover in left} == {network, f"{network}-subnet", "allow-inside"}
    assert not any(leftover.belonging.sure for leftover in left)
    assert left_of(clients, footprint(neutral.plan, State(), [], [])) == []


def test_networks_for_the_cards_of_a_living_cluster_are_no_leftovers_and_those_of_a_gone_one_are(
    clients: Clients, neutral: PastStack, google: GoogleServer, project: Project
) -> None:
    for cluster in ("1f2e3d4c", "9a8b7c6d"):
        project.add("networks", f"gke-anp-{cluster}-net-1")
    clusters = [{"name": "mine", "id": "1f2e3d4c" + "0" * 56, "location": REGION, "resourceLabels": {}}]
    google.plant("container.v1", "container.projects.locations.clusters.list", {"clusters": clusters})
    # The stack is up, with a cluster that has replaced another one.
    left = left_of(clients, footprint(neutral.plan, neutral.alive, [neutral.alive], []))
    names = {leftover.candidate.name for leftover in left if leftover.candidate.name.startswith("gke-anp-")}
    assert names == {"gke-anp-9a8b7c6d-net-1"}
    assert not any(leftover.belonging.sure for leftover in left)
