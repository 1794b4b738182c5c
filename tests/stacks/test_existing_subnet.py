"""A subnet that exists before the stack, also in a Shared VPC, and the ranges of a network of its own."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from components.network.ranges import NOT_PUBLIC, PRIVATE
from engine.plan import Plan
from rehearsal.fakes.cloud import BUCKET
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.configuration import CLOUDRUN, of_stack, problems

CLUSTERS = plans.stacks_with("podsRange")
STACK = plans.one_with("podsRange")
CLUSTER = "container/cluster:Cluster"
NAMES = {"network": "corp", "podsRange": "gke-pods", "servicesRange": "gke-services"}


def path(stack: str, project: str = "host-project") -> str:
    return f"projects/{project}/regions/{plans.region_of(stack)}/subnetworks/shared"


def settings(stack: str) -> dict[str, str]:
    """A subnet of a host project."""
    own = NAMES if stack in CLUSTERS else {}
    return plans.known_settings(stack, subnet=path(stack), imageUri=plans.IMAGE, **own)


def network_resources(plan: Plan) -> list[str]:
    return [resource.name for resource in plan.resources if resource.type.startswith("gcp:compute")]


def names_of(rehearsal: Rehearsal, type_token: str) -> list[str]:
    return [item.id for item in rehearsal.cloud.of_type(type_token)]


@pytest.mark.parametrize("stack", plans.stacks_with("subnet"))
def test_the_stack_makes_no_network(stack: str) -> None:
    image = plans.known_settings(stack, imageUri=plans.IMAGE)
    assert network_resources(plans.shipped(stack, **image))
    assert not network_resources(plans.shipped(stack, **settings(stack)))


@pytest.mark.parametrize("stack", CLUSTERS)
def test_the_cluster_is_in_the_subnet_of_the_host_project(stack: str) -> None:
    cluster = plans.only(plans.shipped(stack, **settings(stack)), CLUSTER).inputs
    assert cluster["subnetwork"] == path(stack)
    assert cluster["network"] == "projects/host-project/global/networks/corp"
    ranges = cluster["ipAllocationPolicy"]
    assert ranges["clusterSecondaryRangeName"] == "gke-pods"
    assert ranges["servicesSecondaryRangeName"] == "gke-services"
    assert cluster["project"] == "rehearsal-project"


def test_a_name_alone_is_a_subnet_of_the_stack_s_project() -> None:
    plan = plans.shipped(STACK, subnet="shared", imageUri=plans.IMAGE, **NAMES)
    assert plans.only(plan, CLUSTER).inputs["subnetwork"] == path(STACK, "rehearsal-project")


@pytest.mark.parametrize("stack", ["cloudrun-vllm"])
def test_job_and_service_send_everything_through_it(stack: str) -> None:
    plan = plans.shipped(stack, **settings(stack))
    (job,) = plans.of_type(plan, "cloudrunv2/job:Job")
    (service,) = plans.of_type(plan, "cloudrunv2/service:Service")
    for template in (job.inputs["template"]["template"], service.inputs["template"]):
        assert template["vpcAccess"]["networkInterfaces"] == [{"subnetwork": path(stack)}]
        assert template["vpcAccess"]["egress"] == "ALL_TRAFFIC"


def test_a_stack_that_is_up_moves_to_another_network() -> None:
    """GKE cannot move a cluster, so the new one comes first. The bucket stays, and the run goes on."""
    own = {"imageUri": plans.IMAGE, "forceDestroy": "true"}
    with Rehearsal(STACK, own) as rehearsal:
        rehearsal.up()
        run, bucket = plans.outputs(rehearsal)["run"], names_of(rehearsal, BUCKET)
        rehearsal.configure({**own, **settings(STACK)})
        rehearsal.up()
        assert (plans.outputs(rehearsal)["run"], names_of(rehearsal, BUCKET)) == (run, bucket)
        assert not network_resources(plans.standing_plan(rehearsal))
        rehearsal.destroy()
        assert rehearsal.cloud.items == []


def test_own_ranges_are_those_of_the_settings() -> None:
    ranges = {
        "ownNetwork_machines": "172.20.0.0/22",
        "ownNetwork_pods": "100.64.0.0/14",
        "ownNetwork_services": "172.20.8.0/22",
    }
    subnet = plans.only(plans.shipped(STACK, imageUri=plans.IMAGE, **ranges), "subnetwork:Subnetwork").inputs
    assert subnet["ipCidrRange"] == "172.20.0.0/22"
    secondary = {entry["rangeName"]: entry["ipCidrRange"] for entry in subnet["secondaryIpRanges"]}
    assert secondary == {"pods": "100.64.0.0/14", "services": "172.20.8.0/22"}


ALL = {"subnet": "shared", **NAMES}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {**ALL, "network": None},
            "network: missing, and subnet needs it; set it with `pulumi config set net",
        ),
        (
            {**ALL, "podsRange": None},
            "podsRange: missing, and subnet needs it; set it with `pulumi config se",
        ),
        (
            {"servicesRange": "x"},
            "servicesRange: only with subnet, which the stack does not have; set subnet",
        ),
        (
            {**ALL, "subnet": "Shared"},
            "subnet: 'Shared' is not the name of a subnet, or projects/PROJECT/reg",
        ),
        (
            {**ALL, "subnet": "projects/host/regions/us-east5/subnetworks/shared"},
            "subnet: the subnet is in us-east5 and the stack in us-central1; name a subnet in us-central1,",
        ),
        (
            {**ALL, "ownNetwork.pods": "10.64.0.0/16"},
            "ownNetwork.pods: with subnet the stack has no network of its own; remove one of the two",
        ),
        (
            {**ALL, "ownNetwork.pods": "10.4.0.0/16"},  # the default
            "ownNetwork.pods: with subnet the stack has no network of its own; remove one of the two",
        ),
        ({"ownNetwork.pods": "10.4.0.0/20"}, "ownNetwork.pods: 10.4.0.0/20 is too small; take a /17 or lar"),
        ({"ownNetwork.machines": "10.0.0.5/20"}, "ownNetwork.machines: '10.0.0.5/20' is not a private range"),
        ({"ownNetwork.machines": "8.8.0.0/20"}, "ownNetwork.machines: 8.8.0.0/20 has public addresses, whic"),
        *(
            ({"ownNetwork.machines": special}, f"ownNetwork.machines: no network may have {special}; take")
            for special in ("169.254.0.0/20", "127.0.0.0/20", "0.0.0.0/8", "224.0.0.0/16")
        ),
        ({"internalRanges": "20.0.0.1/16"}, "internalRanges: '20.0.0.1/16' is not a network in CIDR not"),
        ({"internalRanges": "10.1.0.0/16"}, "internalRanges: 10.1.0.0/16 has addresses of 10.0.0.0/8, whi"),
        ({"internalRanges": "0.0.0.0/0"}, "internalRanges: 0.0.0.0/0 has addresses of 10.0.0.0/8, which a"),
        (
            {"internalRanges": "20.0.0.0/16", "egress": "googleAndHub"},
            "internalRanges: only with egress https, and the stack has googleAndHub; remove one of the two",
        ),
        (
            {"ownNetwork.services": "10.0.8.0/22"},
            "ownNetwork.services: 10.0.8.0/22 overlaps with 10.0.0.0/20 of ownNetwork.machines; choose ano",
        ),
        (
            {"ownNetwork.machines": "10.4.0.0/20"},
            "ownNetwork.pods: 10.4.0.0/16 overlaps with 10.4.0.0/20 of ownNetwork.machines; choose another",
        ),
    ],
)
def test_wrong_places_are_one_message(values: dict[str, str | None], message: str) -> None:
    (problem,) = problems({f"llm-stacks:{key}": value for key, value in values.items()})
    assert problem.startswith(message)


def excepted(plan: Plan) -> list[str]:
    """What the policy of the pods takes for no internet."""
    policies = plans.of_type(plan, ":NetworkPolicy")
    (policy,) = (resource for resource in policies if "to-https" in resource.name)
    return policy.inputs["spec"]["egress"][0]["to"][0]["ipBlock"]["except"]


@pytest.mark.parametrize("cidr", [*PRIVATE, "20.0.0.0/16"])
def test_a_range_that_a_network_may_have_is_no_internet_for_its_pods(cidr: str) -> None:
    machines = str(next(iter(IPv4Network(cidr).subnets(new_prefix=max(25, IPv4Network(cidr).prefixlen)))))
    own = {"ownNetwork.machines": machines, "ownNetwork.pods": "10.64.0.0/16"}
    company = {} if cidr in PRIVATE else {"internalRanges": cidr}
    assert of_stack("serve", {**plans.known_settings("serve"), **own, **company})


def test_a_pod_connects_to_no_private_address_and_to_none_that_a_company_uses_inside() -> None:
    ranges = excepted(plans.shipped("serve", internalRanges="20.0.0.0/16"))
    assert ranges == [*NOT_PUBLIC, "20.0.0.0/16"]
    blocks = [IPv4Network(text) for text in ranges]
    inside = ("10.1.2.3", "169.254.169.254", "192.0.0.8", "198.19.0.1", "240.0.0.1", "255.0.0.1", "20.0.9.9")
    for address in inside:
        assert any(IPv4Address(address) in block for block in blocks), address
    # Google's APIs in a network without a way to the internet.
    for address in ("199.36.153.4", "199.36.153.8", "142.250.0.1"):
        assert not any(IPv4Address(address) in block for block in blocks), address


def test_cloud_run_takes_the_subnet_alone() -> None:
    assert problems({**CLOUDRUN, "llm-stacks:network": "corp"})[0].startswith("network: unknown key")


def test_google_refuses_a_range_that_the_subnet_does_not_have() -> None:
    with Rehearsal(STACK, settings(STACK)) as rehearsal:
        (subnet,) = (item for item in rehearsal.cloud.foreign if item.id == path(STACK))
        ranges: list[dict[str, Any]] = subnet.inputs["secondaryIpRanges"]
        ranges.pop()
        with pytest.raises(Exception, match="pod secondary range 'gke-services' not found in subnet"):
            rehearsal.up()
