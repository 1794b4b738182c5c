"""Checks region and zones, the machines that they offer, and a subnet that the stack borrows.

The plan itself checks the ranges of the stack's own subnets (cloud/compute.py).
"""

import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final

from cloud.run import L4_REGIONS
from operations.clients import Clients, last
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.machines import Machines, cloud_run_of, machines_of
from operations.plan import StackPlan

# Cloud Run takes addresses in blocks of 16 and keeps them for a while. It needs twice as many as instances,
# and at least a /26.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_LARGEST_PREFIX: Final = 26
_BORROWED: Final = re.compile(
    r"projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+)/subnetworks/(?P<name>[^/]+)"
)


def check_places(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that region and zones exist, are up and offer the machines."""
    try:
        region = clients.call("compute.v1", "regions.get", project=plan.project, region=plan.region)
    except CallError as error:
        if not error.missing:
            raise
        yield problem(
            f"there is no region {plan.region}",
            f"pulumi config set gcp:region REGION --stack {plan.stack}; "
            "`gcloud compute regions list` has them",
        )
        return
    if region.get("status") != "UP":
        yield problem(f"region {plan.region} is {region.get('status')}", "choose another, or wait")
    else:
        yield fine(f"region {plan.region} is up")
    if plan.region not in L4_REGIONS and any(pods.accelerators for pods in cloud_run_of(plan)):
        yield warning(
            f"Cloud Run offers L4 GPUs to everybody in {', '.join(L4_REGIONS)}, and as far as we know not in "
            f"{plan.region}",
            f"pulumi config set gcp:region {L4_REGIONS[0]} --stack {plan.stack}; "
            "https://docs.cloud.google.com/run/docs/configuring/services/gpu has the current regions",
        )
    zones = {last(url) for url in region.get("zones", ())}
    for machines in machines_of(plan):
        yield from _offered(plan, clients, machines, zones)


def _offered(plan: StackPlan, clients: Clients, machines: Machines, zones: set[str]) -> Iterator[Finding]:
    if machines.type is None:
        # Autopilot would have to choose a machine, and no known machine fits.
        yield problem(
            f"{machines.resource}: no known machine type is {machines.type_name}",
            "ask for a number of accelerators that a machine has",
        )
        return
    places = zones_with(clients, "machineTypes", plan.project, machines.type.name)
    accelerator = machines.type.accelerator
    if accelerator and not machines.type.is_tpu:
        places &= zones_with(clients, "acceleratorTypes", plan.project, accelerator)
    wanted = set(machines.zones) or zones
    here = sorted(wanted & zones & places)
    if (machines.zones and len(here) < len(wanted)) or not here:
        near = machines.zones and zones & places
        key = "gcp:region"
        if near:
            key = "zone" if machines.type.is_tpu else "zones"
        elsewhere = ", ".join(sorted(near or places)) or "no zone that this project sees"
        yield problem(
            f"{machines.resource}: no {machines.type.name} in {', '.join(sorted(wanted - {*here}))}",
            f"it is in {elsewhere}: pulumi config set {key} VALUE --stack {plan.stack}",
        )
    else:
        yield fine(f"{machines.resource}: {machines.type.name} in {', '.join(here)}")


def zones_with(clients: Clients, collection: str, project: str, name: str) -> set[str]:
    """The zones that have a machine or accelerator type that is not deprecated."""
    listed = clients.every(
        "compute.v1", f"{collection}.aggregatedList", project=project, filter=f'name = "{name}"'
    )
    same = (entry for entry in listed if entry.get("name") == name and "deprecated" not in entry)
    return {last(entry.get("zone")) for entry in same}


def check_network(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks every subnet that the plan borrows by its path."""
    paths = {
        str(interface.get("subnetwork"))
        for pods in cloud_run_of(plan)
        for interface in (pods.spec.get("vpcAccess") or {}).get("networkInterfaces", ())
    }
    for path in sorted(paths):
        parts = _BORROWED.fullmatch(path)
        if parts:
            yield from _fit(plan, clients, **parts.groupdict())


def _fit(plan: StackPlan, clients: Clients, project: str, region: str, name: str) -> Iterator[Finding]:
    where = f"--region {region} --project {project}"
    try:
        subnet = clients.call(
            "compute.v1", "subnetworks.get", project=project, region=region, subnetwork=name
        )
    except CallError as error:
        if not error.missing:
            raise
        yield problem(
            f"there is no subnet {name} in {region}",
            f"pulumi config set subnet NAME --stack {plan.stack}; `gcloud compute networks subnets list "
            f"--regions {region} --project {project}` has them",
        )
        return
    faults = []
    if not subnet.get("privateIpGoogleAccess"):
        text = f"subnet {name} has no Private Google Access, and Cloud Storage is reached through it"
        faults.append(
            problem(
                text,
                f"gcloud compute networks subnets update {name} {where} --enable-private-ip-google-access",
            )
        )
    size = ip_network(subnet.get("ipCidrRange", "0.0.0.0/32")).prefixlen
    if size > _LARGEST_PREFIX:
        faults.append(
            problem(
                f"subnet {name} is a /{size}, and Cloud Run needs a /{_LARGEST_PREFIX} at least",
                f"gcloud compute networks subnets expand-ip-range {name} {where} "
                f"--prefix-length {_LARGEST_PREFIX}",
            )
        )
    # All traffic goes through the subnet, also to the Hugging Face Hub.
    network = last(subnet.get("network"))
    routers = clients.every("compute.v1", "routers.list", project=project, region=region)
    if not any(router.get("nats") for router in routers if last(router.get("network")) == network):
        faults.append(
            problem(
                f"network {network} has no Cloud NAT in {region}: the job does not reach the Hugging Face "
                "Hub",
                f"gcloud compute routers create nat --network {network} {where}; "
                f"gcloud compute routers nats create nat --router nat {where} "
                "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges",
            )
        )
    yield from faults or [fine(f"subnet {name} ({subnet.get('ipCidrRange')}) has room and a way out")]
