"""Trust in the forges' tokens: a pipeline's job acts as an identity at Google, without a stored key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

# Attributes of a job that decide which identity it may act as.
PREVIEWS: Final = "previews"
DEPLOYS: Final = "deploys"


@dataclass(frozen=True, kw_only=True)
class Forge:
    """A forge, with conditions on the claims of its tokens, in the Common Expression Language.

    Args:
        issuer: Address of the issuer that signs the tokens.
        trusted: Condition for a job of this repository.
        previews: Condition for a job that may act as the preview identity.
        deploys: Condition for a job that may act as the deploy identity.
    """

    issuer: str
    trusted: str
    previews: str
    deploys: str


def admit(pool: gcp.iam.WorkloadIdentityPool, name: str, forge: Forge) -> pulumi.Output[str]:
    """Trusts a forge's tokens, and returns the full name of its provider, `projects/NUMBER/...`."""
    return gcp.iam.WorkloadIdentityPoolProvider(
        f"llm-{name}",
        project=pool.project,
        workload_identity_pool_id=pool.workload_identity_pool_id,
        workload_identity_pool_provider_id=name,
        # All repositories of the forge have tokens from this issuer. Without the condition all would be
        # trusted.
        attribute_condition=forge.trusted,
        attribute_mapping={
            "google.subject": "assertion.sub",
            f"attribute.{PREVIEWS}": f"({forge.previews}) ? 'yes' : 'no'",
            f"attribute.{DEPLOYS}": f"({forge.deploys}) ? 'yes' : 'no'",
        },
        oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=forge.issuer),
    ).name


def github(repository: str, repository_id: str, main_branch: str) -> Forge:
    """The conditions for jobs of GitHub.

    They do not use the subject: its content depends on the repository's age and its owner's settings.
    https://docs.github.com/actions/reference/security/oidc
    """
    return Forge(
        issuer="https://token.actions.githubusercontent.com",
        trusted=f"assertion.repository == '{repository}' && assertion.repository_id == '{repository_id}'",
        # The daily check for drift runs the main branch's code, and has its own environment so that it does
        # not wait for a reviewer of previews.
        previews="assertion.environment == 'preview' || "
        f"assertion.environment == 'drift' && assertion.ref == 'refs/heads/{main_branch}'",
        deploys=f"assertion.environment == 'production' && assertion.ref == 'refs/heads/{main_branch}' && "
        "assertion.event_name == 'workflow_dispatch'",
    )


def gitlab(url: str, project_id: str, main_branch: str) -> Forge:
    """The conditions for jobs of GitLab. A fork is a project with another number.

    https://docs.gitlab.com/ci/secrets/id_token_authentication/
    """
    on_main = (
        f"assertion.ref == '{main_branch}' && assertion.ref_type == 'branch' && "
        "assertion.ref_protected == 'true'"
    )
    return Forge(
        issuer=url,
        trusted=f"assertion.project_id == '{project_id}'",
        previews=f"assertion.environment == 'preview' || assertion.environment == 'drift' && {on_main}",
        # A job can name any environment. The claim says whether approvers protect the environment.
        deploys="assertion.environment == 'production' && assertion.environment_protected == 'true' && "
        f"assertion.pipeline_source == 'web' && {on_main}",
    )


def job_identity(
    name: str,
    pool: gcp.iam.WorkloadIdentityPool,
    display_name: str,
    attribute: str,
    roles: Iterable[str],
    conditions: Mapping[str, str] | None = None,
) -> gcp.serviceaccount.Account:
    """A service account without a key. Only jobs that have the attribute can act as it.

    Args:
        conditions: Conditions on some of the roles, by role.
    """
    account = gcp.serviceaccount.Account(f"{name}-account", project=pool.project, display_name=display_name)
    gcp.serviceaccount.IAMMember(
        f"{name}-jobs",
        service_account_id=account.name,
        role="roles/iam.workloadIdentityUser",
        member=pulumi.Output.concat(
            "principalSet://iam.googleapis.com/", pool.name, f"/attribute.{attribute}/yes"
        ),
    )
    for role in roles:
        expression = (conditions or {}).get(role)
        gcp.projects.IAMMember(
            f"{name}-{role.removeprefix('roles/')}",
            project=pool.project,
            role=role,
            member=account.member,
            condition=gcp.projects.IAMMemberConditionArgs(
                title="Only what belongs to the stacks", expression=expression
            )
            if expression
            else None,
        )
    return account
