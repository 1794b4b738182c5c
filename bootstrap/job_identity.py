"""The service account that a job of the pipelines acts as."""

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True, kw_only=True)
class JobIdentityArgs:
    """Arguments of `JobIdentity`.

    Args:
        project: Project id, known once its APIs are enabled.
        display_name: What it is for, as the console shows it.
        jobs: The jobs that may act as it, as an IAM member.
        roles: Roles on the project.
    """

    project: pulumi.Input[str]
    display_name: str
    jobs: pulumi.Input[str]
    roles: Iterable[str]


class JobIdentity(pulumi.ComponentResource):
    """A service account without a key, which the jobs of one kind, and nobody else, act as.

    Attributes:
        email: Its address.
        member: `serviceAccount:EMAIL`.
    """

    def __init__(self, name: str, args: JobIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("llm-stacks-bootstrap:components:JobIdentity", name, None, opts)
        account = gcp.serviceaccount.Account(
            f"{name}-account",
            project=args.project,
            display_name=args.display_name,
            opts=pulumi.ResourceOptions(parent=self),
        )
        gcp.serviceaccount.IAMMember(
            f"{name}-jobs",
            service_account_id=account.name,
            role="roles/iam.workloadIdentityUser",
            member=args.jobs,
            opts=pulumi.ResourceOptions(parent=self),
        )
        for role in args.roles:
            gcp.projects.IAMMember(
                f"{name}-{role.removeprefix('roles/')}",
                project=args.project,
                role=role,
                member=account.member,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.email: pulumi.Output[str] = account.email
        self.member: pulumi.Output[str] = account.member
        self.register_outputs({"email": account.email})
