"""Checks a subnet that the stack does not create: the setting `subnet`.

The plan itself checks the ranges of the stack's own subnets (cloud/services/compute.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final

from cloud.inputs import texts
from cloud.services.container import CLUSTER
from operations.checks.shared_network import check_host
from operations.cost.machines import cloud_run_of, machines_of
from operations.errors import CallError
from operations.findings import Finding, fine, problem
from operations.google.clients import Clients, last
from operations.plan import StackPlan

# Cloud Run takes addresses in blocks of 16 and keeps them for a while. It needs twice as many as instances,
# and at least a /26.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_LARGEST_PREFIX: Final = 26
# A Standard node takes a block of 256 addresses for its pods, twice the 110 that it may have.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips
_ADDRESSES_PER_NODE: Final = 256
_PATH: Final = re.compile("projects/([^/]+)/regions/([^/]+)/subnetworks/([^/]+)")


@dataclass(frozen=True, kw_only=True)
class _Borrowed:
    """A subnet that exists, and what the plan wants of it.

    Args:
        network: Name of the VPC that the plan names. Empty for Cloud Run, which finds it by the subnet.
        ranges: Names of the secondary ranges for pods and services. Empty for Cloud Run.
        nodes: Nodes of a Standard cluster. 0 for Autopilot, whose nodes take fewer addresses.
    """

    project: str
    region: str
    name: str
    network: str = ""
    ranges: tuple[str, ...] = ()
    nodes: int = 0

    @property
    def where(self) -> str:
        """Flags of gcloud."""
        return f"--region {self.region} --project {self.project}"

    @property
    def is_for_cluster(self) -> bool:
        """Whether a cluster uses it, and not Cloud Run."""
        return bool(self.network)


def check_network(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks every subnet that the plan borrows by its path."""
    for subnet in _borrowed(plan):
        yield from _check(plan, clients, subnet)


def _borrowed(plan: StackPlan) -> Iterator[_Borrowed]:
    paths = {
        str(interface.get("subnetwork"))
        for pods in cloud_run_of(plan)
        for interface in (pods.spec.get("vpcAccess") or {}).get("networkInterfaces", ())
    }
    for path in sorted(paths):
        if place := _PATH.fullmatch(path):
            yield _Borrowed(project=place[1], region=place[2], name=place[3])
    for cluster in plan.of_type(CLUSTER.type):
        if place := _PATH.fullmatch(str(cluster.inputs.get("subnetwork"))):
            policy = cluster.inputs["ipAllocationPolicy"]
            standard = not cluster.inputs.get("enableAutopilot")
            yield _Borrowed(
                project=place[1],
                region=place[2],
                name=place[3],
                network=last(cluster.inputs["network"]),
                ranges=(policy["clusterSecondaryRangeName"], policy["servicesSecondaryRangeName"]),
                nodes=sum(machines.most for machines in machines_of(plan)) if standard else 0,
            )


def _check(plan: StackPlan, clients: Clients, wanted: _Borrowed) -> Iterator[Finding]:
    try:
        subnet = clients.call(
            "compute.v1",
            "subnetworks.get",
            project=wanted.project,
            region=wanted.region,
            subnetwork=wanted.name,
        )
    except CallError as error:
        if error.forbidden and not error.disabled:
            yield problem(
                f"you may not look at subnet {wanted.name} of {wanted.project}",
                f"ask an administrator of {wanted.project} for roles/compute.networkUser on the subnet",
            )
            return
        if not error.missing:
            raise
        yield problem(
            f"there is no subnet {wanted.name} in {wanted.region}",
            f"pulumi config set subnet NAME --stack {plan.stack}; `gcloud compute networks subnets list "
            f"--regions {wanted.region} --project {wanted.project}` has them",
        )
        return
    _require_ranges(subnet)
    faults = [*_faults(wanted, subnet), *_ways_out(clients, wanted, last(subnet.get("network")))]
    if wanted.is_for_cluster:
        faults += _ranges(plan, wanted, subnet)
    if wanted.project != plan.project:
        faults += check_host(
            plan.project,
            clients,
            host=wanted.project,
            subnet=wanted.name,
            region=wanted.region,
            for_cluster=wanted.is_for_cluster,
        )
    yield from faults or [fine(f"subnet {wanted.name} ({subnet.get('ipCidrRange')}) has room and a way out")]


def _require_ranges(subnet: dict[str, Any]) -> None:
    """Raises CallError if the answer has a range that is none."""
    for path in ("ipCidrRange", "secondaryIpRanges[].ipCidrRange"):
        for text in texts(subnet, path):
            try:
                ip_network(text)
            except ValueError as error:
                raise CallError("compute.subnetworks.get", f"the answer is not understood: {error}") from None


def _faults(wanted: _Borrowed, subnet: dict[str, Any]) -> Iterator[Finding]:
    """Properties of the subnet with which `up` fails."""
    name = wanted.name
    if not subnet.get("privateIpGoogleAccess"):
        yield problem(
            f"subnet {name} has no Private Google Access, and Cloud Storage is reached through it",
            f"gcloud compute networks subnets update {name} {wanted.where} --enable-private-ip-google-access",
        )
    size = ip_network(subnet.get("ipCidrRange", "0.0.0.0/32")).prefixlen
    if not wanted.is_for_cluster and size > _LARGEST_PREFIX:
        yield problem(
            f"subnet {name} is a /{size}, and Cloud Run needs a /{_LARGEST_PREFIX} at least",
            f"gcloud compute networks subnets expand-ip-range {name} {wanted.where} "
            f"--prefix-length {_LARGEST_PREFIX}",
        )


def _ways_out(clients: Clients, wanted: _Borrowed, network: str) -> Iterator[Finding]:
    """All traffic goes through the subnet, also to the Hugging Face Hub."""
    routers = clients.every("compute.v1", "routers.list", project=wanted.project, region=wanted.region)
    if not any(router.get("nats") for router in routers if last(router.get("network")) == network):
        user = "pods do" if wanted.is_for_cluster else "the job does"
        yield problem(
            f"network {network} has no Cloud NAT in {wanted.region}: {user} not reach the Hugging Face Hub",
            f"gcloud compute routers create nat --network {network} {wanted.where}; "
            f"gcloud compute routers nats create nat --router nat {wanted.where} "
            "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges",
        )


def _ranges(plan: StackPlan, wanted: _Borrowed, subnet: dict[str, Any]) -> Iterator[Finding]:
    """The network and the secondary ranges, which GKE refuses if the subnet does not have them."""
    network = last(subnet.get("network"))
    if network != wanted.network:
        yield problem(
            f"subnet {wanted.name} is in network {network}, not in {wanted.network}",
            f"pulumi config set network {network} --stack {plan.stack}",
        )
    blocks = dict(
        zip(
            texts(subnet, "secondaryIpRanges[].rangeName"),
            texts(subnet, "secondaryIpRanges[].ipCidrRange"),
            strict=True,
        )
    )
    for key, name in zip(("podsRange", "servicesRange"), wanted.ranges, strict=True):
        if name not in blocks:
            known = f"it has {', '.join(sorted(blocks))}" if blocks else "it has none"
            yield problem(
                f"subnet {wanted.name} has no secondary range {name}; {known}",
                f"pulumi config set {key} NAME --stack {plan.stack}; or gcloud compute networks subnets "
                f"update {wanted.name} {wanted.where} --add-secondary-ranges {name}=CIDR",
            )
    pods = blocks.get(wanted.ranges[0])
    room = ip_network(pods).num_addresses // _ADDRESSES_PER_NODE if pods else wanted.nodes
    if room < wanted.nodes:
        yield problem(
            f"secondary range {wanted.ranges[0]} ({pods}) has room for the pods of {room} nodes, and the "
            f"stack has {wanted.nodes}",
            "name a larger range of the subnet with podsRange, or set fewer nodes",
        )
