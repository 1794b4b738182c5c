"""Who a pipeline's job is at Google, by the token that its forge signs: no key is stored anywhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

# Attributes of a job that roles are given by.
PREVIEWS: Final = "previews"
DEPLOYS: Final = "deploys"


@dataclass(frozen=True, kw_only=True)
class Forge:
    """A forge, and which of its jobs are what; conditions on the claims of a token.

    Args:
        issuer: Who signs the tokens.
        trusted: Whether a job is one of this repository's.
        previews: Whether such a job may act as the identity of previews.
        deploys: Whether such a job may act as the identity that deploys.
    """

    issuer: str
    trusted: str
    previews: str
    deploys: str


def admit(pool: gcp.iam.WorkloadIdentityPool, name: str, forge: Forge) -> pulumi.Output[str]:
    """Trusts a forge's tokens; returns the full name of its provider, `projects/NUMBER/...`."""
    return gcp.iam.WorkloadIdentityPoolProvider(
        f"llm-{name}",
        project=pool.project,
        workload_identity_pool_id=pool.workload_identity_pool_id,
        workload_identity_pool_provider_id=name,
        # Every repository of the forge has tokens of this issuer: without the condition all were trusted.
        attribute_condition=forge.trusted,
        attribute_mapping={
            "google.subject": "assertion.sub",
            f"attribute.{PREVIEWS}": f"({forge.previews}) ? 'yes' : 'no'",
            f"attribute.{DEPLOYS}": f"({forge.deploys}) ? 'yes' : 'no'",
        },
        oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=forge.issuer),
    ).name


def github(repository: str, repository_id: str, main_branch: str) -> Forge:
    """Jobs of GitHub.

    Not by the subject: what is in it depends on the repository's age and its owner's settings.
    https://docs.github.com/actions/reference/security/oidc
    """
    return Forge(
        issuer="https://token.actions.githubusercontent.com",
        trusted=f"assertion.repository == '{repository}' && assertion.repository_id == '{repository_id}'",
        # No reviewer of previews holds up the daily look for drift, which runs the main branch's code.
        previews="assertion.environment == 'preview' || "
        f"assertion.environment == 'drift' && assertion.ref == 'refs/heads/{main_branch}'",
        deploys=f"assertion.environment == 'production' && assertion.ref == 'refs/heads/{main_branch}' && "
        "assertion.event_name == 'workflow_dispatch'",
    )


def gitlab(url: str, project_id: str, main_branch: str) -> Forge:
    """Jobs of GitLab; a fork is a project with another number.

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
        # Anybody can name an environment in a job. GitLab says whether approvers protect it.
        deploys="assertion.environment == 'production' && assertion.environment_protected == 'true' && "
        f"assertion.pipeline_source == 'web' && {on_main}",
    )


def job_identity(
    name: str, pool: gcp.iam.WorkloadIdentityPool, display_name: str, attribute: str, roles: Iterable[str]
) -> gcp.serviceaccount.Account:
    """A service account without a key, which all jobs that have an attribute, and nobody else, act as."""
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
        gcp.projects.IAMMember(
            f"{name}-{role.removeprefix('roles/')}", project=pool.project, role=role, member=account.member
        )
    return account
