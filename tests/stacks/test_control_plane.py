"""How the API server of a stack's cluster is reached: its address, its authority, and the command for it."""

import json
from typing import Any

import pytest

from engine.plan import Plan
from rehearsal.session import Rehearsal
from tests import plans

STACK = "a4-ray"
NETWORKS = {"authorizedNetworks": '["10.0.0.0/8", "100.64.0.0/10"]'}


def reached(plan: Plan) -> dict[str, Any]:
    """The cluster that the stack's Kubernetes provider connects to."""
    kubeconfig = json.loads(plans.only(plan, "pulumi:providers:kubernetes").inputs["kubeconfig"])
    (entry,) = kubeconfig["clusters"]
    return entry["cluster"]


def cluster_of(plan: Plan) -> dict[str, Any]:
    return plans.only(plan, "container/cluster:Cluster").inputs


def test_the_api_server_has_a_name_and_no_address(standing: Rehearsal) -> None:
    plan = plans.standing_plan(standing)
    endpoints = cluster_of(plan)["controlPlaneEndpointsConfig"]
    assert endpoints["ipEndpointsConfig"] == {"enabled": False}
    assert endpoints["dnsEndpointConfig"]["allowExternalTraffic"] is True
    # A client that trusted the cluster's own authority would refuse the certificate of Google's front end.
    assert set(reached(plan)) == {"server"}
    assert reached(plan)["server"].endswith(".us-central1.gke.goog")
    assert plans.outputs(standing)["connect"].endswith(" --dns-endpoint")


@pytest.mark.parametrize(
    ("kind", "is_private", "option"), [("public", False, ""), ("private", True, " --internal-ip")]
)
def test_an_address_answers_the_authorized_networks_and_nobody_else(
    kind: str, is_private: bool, option: str
) -> None:
    settings = {**plans.STANDING_SETTINGS, "controlPlane": kind, **NETWORKS}
    with Rehearsal(STACK, settings) as rehearsal:
        rehearsal.up()
        plan, connect = plans.standing_plan(rehearsal), plans.outputs(rehearsal)["connect"]
    inputs = cluster_of(plan)
    assert inputs["controlPlaneEndpointsConfig"] == {
        "dnsEndpointConfig": {"allowExternalTraffic": False},
        "ipEndpointsConfig": {"enabled": True},
    }
    assert inputs["privateClusterConfig"] == {"enablePrivateNodes": True, "enablePrivateEndpoint": is_private}
    networks = inputs["masterAuthorizedNetworksConfig"]
    assert [block["cidrBlock"] for block in networks["cidrBlocks"]] == ["10.0.0.0/8", "100.64.0.0/10"]
    assert networks["gcpPublicCidrsAccessEnabled"] is False
    assert set(reached(plan)) == {"server", "certificate-authority-data"}
    assert connect.endswith(f" --project rehearsal-project{option}")


def test_another_address_keeps_the_cluster_and_what_is_in_it() -> None:
    plan = plans.planned_next(STACK, controlPlane="private", **NETWORKS)
    changed = {resource.type for resource in plan.resources if resource.op != "same"}
    assert changed == {"gcp:container/cluster:Cluster", "pulumi:providers:kubernetes"}
    assert {resource.op for resource in plan.resources} == {"same", "update"}
    assert "certificate-authority-data" in reached(plan)
