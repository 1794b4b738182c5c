"""The Google service account that something runs as: one of the stack's own, or one that exists."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True, kw_only=True)
class RunAs:
    """A Google service account that machines, a build or a service run as.

    Args:
        email: Its address.
        member: `serviceAccount:EMAIL`.
        path: `projects/PROJECT/serviceAccounts/EMAIL`.
        access: Bindings of its roles in the project, for which what runs as it must wait.
        exists: Whether it exists before the stack.
    """

    email: pulumi.Output[str]
    member: pulumi.Output[str]
    path: pulumi.Output[str]
    access: list[pulumi.Resource]
    exists: bool


def run_as(
    name: str,
    existing: str | None,
    *,
    project: pulumi.Input[str],
    display_name: str,
    roles: Mapping[str, str],
    parent: pulumi.Resource,
) -> RunAs:
    """Declares an account with roles in the project, or names one that exists and has them already.

    Args:
        name: Logical name. The account's id is this name plus 8 characters from Pulumi, and may have 30.
        existing: Address of an account that exists. None declares one.
        roles: Roles in the project by the logical names of their bindings.
    """
    if existing:
        # What uses the account waits for the APIs, as it would for an account of the stack's own.
        email = pulumi.Output.from_input(project).apply(lambda _: existing)
        home = existing.partition("@")[2].partition(".")[0]
        return RunAs(
            email=email,
            member=pulumi.Output.concat("serviceAccount:", email),
            path=pulumi.Output.concat(f"projects/{home}/serviceAccounts/", email),
            access=[],
            exists=True,
        )
    inside = pulumi.ResourceOptions(parent=parent)
    account = gcp.serviceaccount.Account(name, project=project, display_name=display_name, opts=inside)
    access: list[pulumi.Resource] = [
        gcp.projects.IAMMember(binding, project=project, role=role, member=account.member, opts=inside)
        for binding, role in roles.items()
    ]
    return RunAs(email=account.email, member=account.member, path=account.name, access=access, exists=False)
