"""Which pod has a simulated node, when the scheduler puts pods on nodes that were created for others."""

from rehearsal.control_plane.api import Object
from rehearsal.nodes.nodes_of_pods import NodesOfPods


def pod(name: str, on: str = "", gpus: str = "8") -> Object:
    container = {"resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {"cpu": "1"}}}
    return {"metadata": {"uid": name}, "spec": {"nodeName": on, "containers": [container]}}


def nodes_of(**nodes: str) -> NodesOfPods:
    known = NodesOfPods()
    for name, node in nodes.items():
        known.note(pod(name), node)
    return known


def test_a_pod_on_the_node_of_another_one_leaves_it_its_own() -> None:
    known = nodes_of(a="n0", b="n1")
    pods = [pod("a"), pod("b", on="n0")]
    assert known.has_one(pods[0], pods)
    assert known.has_one(pods[0], pods)


def test_pods_that_exchanged_their_nodes_in_a_ring_need_no_other() -> None:
    known = nodes_of(a="n0", b="n1", c="n2")
    pods = [pod("a"), pod("b", on="n0"), pod("c", on="n1")]
    assert known.has_one(pods[0], pods)


def test_a_pod_whose_node_is_taken_by_a_pod_without_one_needs_another() -> None:
    pods = [pod("a"), pod("stranger", on="n0")]
    assert not nodes_of(a="n0").has_one(pods[0], pods)


def test_a_node_that_its_own_pod_uses_is_not_given_away() -> None:
    known = nodes_of(a="n0", b="n0")
    pods = [pod("a"), pod("b", on="n0")]
    assert not known.has_one(pods[0], pods)


def test_a_pod_that_no_machine_fits_gets_no_node_a_second_time() -> None:
    assert nodes_of(a="").has_one(pod("a"), [pod("a")])
    assert not NodesOfPods().has_one(pod("a"), [pod("a")])


def test_pods_without_accelerators_share_a_node() -> None:
    pods = [pod("a", gpus=""), pod("b", on="n0", gpus="")]
    assert nodes_of(a="n0").has_one(pods[0], pods)
