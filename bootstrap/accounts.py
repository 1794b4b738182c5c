"""The service accounts of the stacks that the pipelines create.

The deploy identity acts as these accounts and as no other. It creates none, and grants no role in the
project. No condition on a role could say so, because a condition sees an account's number and not its name.
https://docs.cloud.google.com/iam/docs/conditions-resource-attributes
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Final

import pulumi
import pulumi_gcp as gcp

from stacks.settings.accounts import PROJECT_ROLES, purposes_of

_ACT_AS: Final = "roles/iam.serviceAccountUser"


def stack_accounts(
    project: pulumi.Input[str],
    stacks: Mapping[str, str],
    scenarios: Mapping[str, ModuleType],
    deployer: gcp.serviceaccount.Account,
) -> dict[str, pulumi.Input[str]]:
    """Declares the accounts, their roles in the project, and that the deployer may act as each.

    Args:
        stacks: Scenarios by the names of stacks.
        scenarios: Modules of the scenarios by name.
        deployer: Identity of the jobs that run `pulumi up`.

    Returns:
        The command that gives a stack its accounts, by a title with the stack's name.
    """
    commands: dict[str, pulumi.Input[str]] = {}
    for stack, scenario in stacks.items():
        words: list[pulumi.Input[str]] = [f"pulumi config set-all --stack {stack}"]
        for purpose in purposes_of(scenarios[scenario].Settings):
            account = _account(project, stack, purpose, deployer)
            words += [f" --plaintext accounts.{purpose}=", account.email]
        commands[f"accounts of {stack}"] = pulumi.Output.concat(*words)
    return commands


def _account(
    project: pulumi.Input[str], stack: str, purpose: str, deployer: gcp.serviceaccount.Account
) -> gcp.serviceaccount.Account:
    name = f"llm-{stack}-{purpose}"
    account = gcp.serviceaccount.Account(
        name, account_id=name, project=project, display_name=f"{purpose} of {stack}"
    )
    for role in PROJECT_ROLES[purpose]:
        gcp.projects.IAMMember(
            f"{name}-{role.removeprefix('roles/')}", project=project, role=role, member=account.member
        )
    gcp.serviceaccount.IAMMember(
        f"{name}-deployer", service_account_id=account.name, role=_ACT_AS, member=deployer.member
    )
    return account
