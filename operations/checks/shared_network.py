"""Checks a Shared VPC: what the host project must grant so that a service project may use its subnet.

https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc
https://docs.cloud.google.com/run/docs/configuring/shared-vpc-direct-vpc
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from operations.checks.policies import members_of
from operations.errors import CallError
from operations.findings import Finding, problem, unknown
from operations.google.clients import Clients, last

_GKE_API: Final = "container.googleapis.com"
_USER: Final = "roles/compute.networkUser"
_VIEWER: Final = "roles/compute.networkViewer"


@dataclass(frozen=True, kw_only=True)
class _Grant:
    """A role that one of Google's own accounts needs.

    Args:
        member: The account, as an IAM member.
        roles: Roles of which it needs one, the narrowest first.
        on_subnet: Whether the role may be on the subnet alone, and not on the host project.
    """

    member: str
    roles: tuple[str, ...]
    on_subnet: bool


def _grants(number: str, for_cluster: bool) -> list[_Grant]:
    """What the host must grant (assumption shared-vpc-grants).

    Args:
        number: Number of the service project.
        for_cluster: Whether a cluster uses the subnet, and not Cloud Run.
    """
    if for_cluster:
        gke = f"serviceAccount:service-{number}@container-engine-robot.iam.gserviceaccount.com"
        return [
            _Grant(member=gke, roles=(_USER,), on_subnet=True),
            _Grant(
                member=f"serviceAccount:{number}@cloudservices.gserviceaccount.com",
                roles=(_USER,),
                on_subnet=True,
            ),
            _Grant(member=gke, roles=("roles/container.hostServiceAgentUser",), on_subnet=False),
        ]
    run = f"serviceAccount:service-{number}@serverless-robot-prod.iam.gserviceaccount.com"
    return [
        _Grant(member=run, roles=(_USER,), on_subnet=True),
        _Grant(member=run, roles=(_VIEWER, _USER), on_subnet=False),
    ]


def check_host(
    project: str, clients: Clients, *, host: str, subnet: str, region: str, for_cluster: bool
) -> Iterator[Finding]:
    """Checks that the project is attached to the host, and every grant of the host.

    Args:
        project: Id of the service project, which is the stack's.
        host: Id of the host project.
        subnet: Name of the subnet.
        for_cluster: Whether a cluster uses the subnet, and not Cloud Run.
    """
    attached = clients.call("compute.v1", "projects.getXpnHost", project=project)
    if attached.get("name") != host:
        yield problem(
            f"project {project} is not attached to the Shared VPC of {host}",
            f"ask an administrator of {host}: gcloud compute shared-vpc associated-projects add {project} "
            f"--host-project {host}",
        )
    if for_cluster:
        yield from _api_of_host(clients, host)
    answer = clients.call("cloudresourcemanager.v3", "projects.get", name=f"projects/{project}")
    of_host = members_of(
        clients, "cloudresourcemanager.v3", "projects.getIamPolicy", resource=f"projects/{host}"
    )
    of_subnet = members_of(
        clients, "compute.v1", "subnetworks.getIamPolicy", project=host, region=region, resource=subnet
    )
    for grant in _grants(last(answer.get("name")), for_cluster):
        policies = [of_host, of_subnet] if grant.on_subnet else [of_host]
        if any((role, grant.member) in (policy or ()) for policy in policies for role in grant.roles):
            continue
        place = f"subnet {subnet} of {host}" if grant.on_subnet else f"project {host}"
        command = f"gcloud projects add-iam-policy-binding {host}"
        if grant.on_subnet:
            command = (
                f"gcloud compute networks subnets add-iam-policy-binding {subnet} --region {region} "
                f"--project {host}"
            )
        remedy = f"ask an administrator of {host}: {command} --member {grant.member} --role {grant.roles[0]}"
        account = grant.member.partition(":")[2]
        if None in policies:
            yield unknown(f"you may not see whether {account} has {grant.roles[0]} on {place}", remedy)
        else:
            yield problem(f"{account} has no {grant.roles[0]} on {place}", remedy)


def _api_of_host(clients: Clients, host: str) -> Iterator[Finding]:
    """GKE's agent of the host project exists only where its API is enabled."""
    enable = f"ask an administrator of {host}: gcloud services enable {_GKE_API} --project {host}"
    try:
        service = clients.call("serviceusage.v1", "services.get", name=f"projects/{host}/services/{_GKE_API}")
    except CallError as error:
        if not error.forbidden:
            raise
        yield unknown(f"you may not see whether {_GKE_API} is enabled in {host}", enable)
        return
    if service.get("state") != "ENABLED":
        yield problem(f"{_GKE_API} is not enabled in {host}, the host project of the subnet", enable)
