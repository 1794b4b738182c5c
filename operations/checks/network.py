"""The subnet that a stack borrows; ranges of its own are checked when it is planned (cloud/compute.py)."""

import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final

from operations.clients import Clients, last
from operations.errors import CallError
from operations.findings import Finding, fine, problem
from operations.plan import StackPlan
from operations.workloads import cloud_run_of

# Cloud Run takes addresses in blocks of 16 and keeps them a while: twice as many as instances, /26 at least.
# https://docs.cloud.google.com/run/docs/configuring/vpc-direct-vpc
_LARGEST_PREFIX: Final = 26
_BORROWED: Final = re.compile(
    r"projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+)/subnetworks/(?P<name>[^/]+)"
)


def check_network(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That every subnet which the plan names by path and does not make is fit."""
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
        found = clients.call("compute.v1", "subnetworks.get", project=project, region=region, subnetwork=name)
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
    if not found.get("privateIpGoogleAccess"):
        text = f"subnet {name} has no Private Google Access, and Cloud Storage is reached through it"
        faults.append(
            problem(
                text,
                f"gcloud compute networks subnets update {name} {where} --enable-private-ip-google-access",
            )
        )
    size = ip_network(found.get("ipCidrRange", "0.0.0.0/32")).prefixlen
    if size > _LARGEST_PREFIX:
        faults.append(
            problem(
                f"subnet {name} is a /{size}, and Cloud Run needs a /{_LARGEST_PREFIX} at least",
                f"gcloud compute networks subnets expand-ip-range {name} {where} "
                f"--prefix-length {_LARGEST_PREFIX}",
            )
        )
    # All traffic goes through the subnet, the way to the Hugging Face Hub too.
    network = last(found.get("network"))
    routers = clients.every("compute.v1", "routers.list", project=project, region=region)
    if not any(each.get("nats") for each in routers if last(each.get("network")) == network):
        faults.append(
            problem(
                f"network {network} has no Cloud NAT in {region}: the job does not reach the Hugging Face "
                "Hub",
                f"gcloud compute routers create nat --network {network} {where}; "
                f"gcloud compute routers nats create nat --router nat {where} "
                "--auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges",
            )
        )
    yield from faults or [fine(f"subnet {name} ({found.get('ipCidrRange')}) has room and a way out")]
