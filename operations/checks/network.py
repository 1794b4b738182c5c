"""Address ranges, and the subnet that a stack borrows."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, ip_network
from itertools import combinations
from typing import Any, Final

from cloud.compute import SUBNETWORK
from cloud.container import CLUSTER
from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.plan import StackPlan
from operations.workloads import cloud_run_of

# Cloud Run takes addresses in blocks of 16 and keeps them a while: twice as many as instances, /26 at least.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_LARGEST_PREFIX: Final = 26
_BORROWED: Final = re.compile(
    r"projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+)/subnetworks/(?P<name>[^/]+)"
)


def check_network(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That the ranges of the stack's own network are apart, and that a borrowed subnet is fit."""
    ranges = list(_ranges(plan))
    overlaps = [(one, other) for one, other in combinations(ranges, 2) if one[1].overlaps(other[1])]
    for (name, one), (other_name, other) in overlaps:
        yield problem(f"{name} {one} and {other_name} {other} overlap", "give them ranges apart")
    public = [(name, each) for name, each in ranges if not each.is_private]
    for name, each in public:
        yield warning(
            f"{name} {each} is not a private range: what really has these addresses cannot be reached",
            "give it one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16",
        )
    if ranges and not overlaps and not public:
        yield fine(f"{len(ranges)} ranges of the stack's own network are private and apart")
    for path in sorted(_borrowed(plan)):
        yield from _fit(plan, clients, path)


def _ranges(plan: StackPlan) -> Iterator[tuple[str, IPv4Network]]:
    for subnet in plan.of_type(SUBNETWORK.type):
        yield f"{subnet.name}", IPv4Network(subnet.inputs["ipCidrRange"])
        for secondary in subnet.inputs.get("secondaryIpRanges") or ():
            yield f"{subnet.name}/{secondary['rangeName']}", IPv4Network(secondary["ipCidrRange"])
    for cluster in plan.of_type(CLUSTER.type):
        control = (cluster.inputs.get("privateClusterConfig") or {}).get("masterIpv4CidrBlock")
        if control:
            yield f"{cluster.name}/control plane", IPv4Network(control)


def _borrowed(plan: StackPlan) -> set[str]:
    """Subnets that the plan names by path and does not make."""
    return {
        interface["subnetwork"]
        for pods in cloud_run_of(plan)
        for interface in (pods.spec.get("vpcAccess") or {}).get("networkInterfaces", ())
        if _BORROWED.fullmatch(str(interface.get("subnetwork")))
    }


def _fit(plan: StackPlan, clients: Clients, path: str) -> Iterator[Finding]:
    parts = _BORROWED.fullmatch(path)
    assert parts
    subnet, project = parts["name"], parts["project"]
    try:
        found = clients.call(
            "compute.v1", "subnetworks.get", project=project, region=parts["region"], subnetwork=subnet
        )
    except CallError as error:
        if not error.missing:
            raise
        yield problem(
            f"there is no subnet {subnet} in {parts['region']}",
            f"pulumi config set subnet NAME --stack {plan.stack}; `gcloud compute networks subnets list "
            f"--regions {parts['region']} --project {project}` has them",
        )
        return
    faults = list(_subnet_faults(found, subnet, parts["region"], project))
    faults += _egress_faults(clients, found, parts["region"], project)
    yield from faults
    if not faults:
        yield fine(f"subnet {subnet} ({found.get('ipCidrRange')}) has room and a way out")


def _subnet_faults(found: dict[str, Any], name: str, region: str, project: str) -> Iterator[Finding]:
    if not found.get("privateIpGoogleAccess"):
        yield problem(
            f"subnet {name} has no Private Google Access, and Cloud Storage is reached through it",
            f"gcloud compute networks subnets update {name} --region {region} --project {project} "
            "--enable-private-ip-google-access",
        )
    size = ip_network(found.get("ipCidrRange", "0.0.0.0/32")).prefixlen
    if size > _LARGEST_PREFIX:
        yield problem(
            f"subnet {name} is a /{size}, and Cloud Run needs a /{_LARGEST_PREFIX} at least",
            f"gcloud compute networks subnets expand-ip-range {name} --region {region} --project {project} "
            f"--prefix-length {_LARGEST_PREFIX}",
        )


def _egress_faults(clients: Clients, subnet: dict[str, Any], region: str, project: str) -> Iterator[Finding]:
    """All traffic goes through the subnet, the way to the Hugging Face Hub too."""
    routers = clients.every("compute.v1", "routers.list", project=project, region=region)
    network = str(subnet.get("network")).rpartition("/networks/")[2]
    own = [each for each in routers if str(each.get("network")).rpartition("/networks/")[2] == network]
    if not any(each.get("nats") for each in own):
        yield problem(
            f"network {network} has no Cloud NAT in {region}: the job does not reach the Hugging Face Hub",
            f"gcloud compute routers create nat --network {network} --region {region} --project {project}; "
            f"gcloud compute routers nats create nat --router nat --region {region} --project {project} "
            "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges",
        )
