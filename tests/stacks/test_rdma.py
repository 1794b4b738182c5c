"""`transport: rdma`: what the plan gives the pods and the nodes, and what is refused."""

from typing import Any

import pytest
import yaml

from components.base.manifest import MANIFESTS
from engine.plan import Plan
from engine.project import ROOT
from tests import plans
from tests.stacks.configuration import A4_ACCELERATE, A4_RAY, by_scenario, problems

KEY, ZONE = "llm-stacks:transport", "llm-stacks:capacity.zone"
NO_RESERVATION = {"llm-stacks:capacity.reservation": None}
STACKS = plans.mostly_slow(plans.stacks_with("transport"), quick=["a4-accelerate"])
STACK = plans.one_with("transport")


def planned(stack: str, **settings: str) -> Plan:
    nodes = plans.known_settings(stack, nodes="2")
    return plans.shipped(stack, imageUri=plans.IMAGE, **{"transport": "rdma", **nodes, **settings})


def trainer(plan: Plan) -> dict[str, Any]:
    """The pod that trains on a node."""
    (spec,) = (spec for _, spec in plans.pod_specs(plan) if "resourceClaims" in spec)
    return spec


@pytest.mark.parametrize("stack", STACKS)
def test_every_pod_claims_the_eight_cards_of_its_node_and_stays_unprivileged(stack: str) -> None:
    plan = planned(stack)
    spec = trainer(plan)
    (claim,) = spec["resourceClaims"]
    (container,) = spec["containers"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    template = plans.only(plan, ":ResourceClaimTemplate").inputs
    assert template["metadata"]["name"] == claim["resourceClaimTemplateName"]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "mrdma.google.com",
        "allocationMode": "ExactCount",
        "count": 8,
    }
    for one in (container, *spec["initContainers"]):
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not one["securityContext"].get("privileged")


@pytest.mark.parametrize("stack", STACKS)
def test_nccl_finds_its_plugin_and_fails_without_it(stack: str) -> None:
    spec = trainer(planned(stack))
    (container,) = spec["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert variables["NCCL_NET"] == "gIB"
    assert variables["RUN_TRANSPORT"] == "rdma"
    (copy,) = spec["initContainers"]
    assert "@sha256:" in copy["image"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == "/usr/local/gib")
    assert mount["name"] in {volume["name"] for volume in spec["volumes"]}
    assert variables["LD_LIBRARY_PATH"].endswith(f"{mount['mountPath']}/lib64")


def test_google_s_way_without_a_script_comes_first() -> None:
    plan = planned(STACK)
    (rule,) = plans.only(plan, "/v1:ComputeClass").inputs["spec"]["priorities"]
    assert rule["acceleratorNetworkProfile"] == "auto"
    assert "nodeSystemConfig" not in rule
    assert "lock-memory" not in plans.text(plan)


def test_the_nodes_get_networks_for_their_cards_and_let_pods_lock_memory() -> None:
    plan = planned(STACK, transport="rdmaWithScript")
    compute_class = plans.only(plan, "/v1:ComputeClass").inputs["spec"]
    assert compute_class["nodePoolConfig"]["dra"] == {"networking": {"enabled": True}}
    (rule,) = compute_class["priorities"]
    assert rule["acceleratorNetworkProfile"] == "auto"
    script = rule["nodeSystemConfig"]["linuxNodeConfig"]["customNodeInit"]["initScript"]
    assert set(script) == {"gcsUri", "gcsGeneration"}
    assert plans.named(plan, f"{STACK}-lock-memory").inputs["name"].startswith("nodes/lock-memory-")
    assert "LimitMEMLOCK=infinity" in (MANIFESTS / "lock-memory.sh").read_text()
    # The nodes read this script, and no run.
    binding = plans.named(plan, f"{STACK}-nodes-script").inputs
    assert binding["role"] == "roles/storage.objectViewer"
    assert "condition" in binding


def test_with_a_list_the_queue_counts_the_cards_of_all_pods() -> None:
    plan = planned(STACK, capacity_type='["reservation", "spot"]', capacity_zone="us-central1-b")
    (group,) = plans.only(plan, ":ClusterQueue").inputs["spec"]["resourceGroups"]
    for flavor in group["flavors"]:
        quota = {resource["name"]: resource["nominalQuota"] for resource in flavor["resources"]}
        assert quota == {"nvidia.com/gpu": "16", "network-cards": "16"}
    manager = plans.only(plan, ":Release").inputs["values"]["managerConfig"]["controllerManagerConfigYaml"]
    mapping = {"name": "network-cards", "deviceClassNames": ["mrdma.google.com"]}
    assert yaml.safe_load(manager)["resources"]["deviceClassMappings"] == [mapping]
    for compute_class in plans.of_type(plan, "/v1:ComputeClass"):
        (rule,) = compute_class.inputs["spec"]["priorities"]
        assert rule["acceleratorNetworkProfile"] == "auto"


def test_tcp_needs_none_of_this() -> None:
    plan = plans.shipped(STACK, imageUri=plans.IMAGE, **plans.known_settings(STACK, nodes="2"))
    assert not plans.of_type(plan, ":ResourceClaimTemplate") and not plans.of_type(plan, ":ComputeClass")
    assert "NCCL_NET" not in plans.text(plan)


def test_few_files_of_the_program_know_rdma() -> None:
    """One component, one setting, one file of the trainer, and GKE's driver in a rehearsal."""
    rooms = (ROOT / room for room in ("components", "operations", "rehearsal", "stacks", "workloads"))
    files = (file for room in rooms for file in room.rglob("*") if file.suffix in (".py", ".sh", ".yaml"))
    knowing = {str(file.relative_to(ROOT)) for file in files if "rdma" in file.read_text().lower()}
    assert knowing == {
        "components/capacity/rdma_network.py",
        "components/manifests/lock-memory.sh",
        "components/manifests/network-card-claim.yaml",
        "operations/assumptions/assumptions.yaml",
        "rehearsal/control_plane/network_cards.py",
        "stacks/nodes/a4.py",
        "workloads/finetune/run/transport.py",
    }


BAD: list[tuple[dict[str, str | None], str]] = [
    (
        {**A4_ACCELERATE, KEY: "rdma"},
        "nodes: transport rdma is between nodes, and there is 1; set it to 2 or more, or choose transport "
        "tcp",
    ),
    (
        {**A4_RAY, KEY: "rdma", "llm-stacks:workers": "1"},
        "workers: transport rdma is between nodes, and there is 1; set it to 2 or more, or choose transport "
        "tcp",
    ),
    (
        {**A4_RAY, KEY: "rdma", **NO_RESERVATION, "llm-stacks:capacity.type": "spot"},
        "workers: 2 nodes must be in one zone, and spot could come from any; name one with `pulumi config "
        "set capacity.zone ZONE`",
    ),
    (
        {
            **A4_ACCELERATE,
            **NO_RESERVATION,
            KEY: "rdma",
            "llm-stacks:nodes": "2",
            "llm-stacks:capacity.type": "queuedFlexStart",
            ZONE: "us-central1-b",
        },
        "transport: a ComputeClass of an Autopilot cluster brings rdma, and queuedFlexStart has a Standard "
        "cluster; choose capacity.type flexStart, or transport tcp",
    ),
    (
        {**A4_RAY, KEY: "rdma", ZONE: "us-central1-b"},  # of a reservation, which has one already
        "capacity.zone: only a list of capacities has a zone; remove it, or add a capacity",
    ),
    (
        {**A4_RAY, KEY: "roce"},
        "transport: 'roce' is not one of tcp, rdma, rdmaWithScript",
    ),
    (
        {"llm-stacks:scenario": "l4-kueue", **NO_RESERVATION, KEY: "rdma"},
        "transport: ",
    ),
]


@pytest.mark.parametrize(("changes", "message"), by_scenario(BAD))
def test_what_cannot_have_rdma_is_refused_in_one_line(changes: dict[str, str | None], message: str) -> None:
    (problem,) = problems(changes)
    assert problem.startswith(message)
