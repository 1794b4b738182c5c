"""Who a pipeline's job is at Google, by the token that its forge signs: no key is stored anywhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

# Attributes of a job that roles are given by.
PREVIEWS: Final = "previews"
DEPLOYS: Final = "deploys"
# Google keeps the id of a deleted pool for 30 days, and the pool with it: `gcloud iam workload-identity-pools
# undelete` brings it back.
_POOL: Final = "llm-forges"


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


@dataclass(frozen=True, kw_only=True)
class FederationArgs:
    """Arguments of `Federation`.

    Args:
        project: Project id, known once its APIs are enabled.
    """

    project: pulumi.Input[str]
    forges: Mapping[str, Forge]


class Federation(pulumi.ComponentResource):
    """A pool of identities with a provider for each forge.

    Attributes:
        providers: Full name of each forge's provider, `projects/NUMBER/...`.
    """

    def __init__(self, name: str, args: FederationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("llm-stacks-bootstrap:components:Federation", name, None, opts)
        self._pool = gcp.iam.WorkloadIdentityPool(
            f"{name}-pool",
            project=args.project,
            # A deleted pool keeps its name for 30 days; Pulumi's suffix lets a new one take its place.
            workload_identity_pool_id=_POOL,
            display_name="Pipelines of the LLM stacks",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.providers: dict[str, pulumi.Output[str]] = {}
        for forge, said in args.forges.items():
            provider = gcp.iam.WorkloadIdentityPoolProvider(
                f"{name}-{forge}",
                project=args.project,
                workload_identity_pool_id=self._pool.workload_identity_pool_id,
                workload_identity_pool_provider_id=forge,
                # Every repository of the forge has tokens of this issuer: without the condition all were
                # trusted.
                attribute_condition=said.trusted,
                attribute_mapping={
                    "google.subject": "assertion.sub",
                    f"attribute.{PREVIEWS}": f"({said.previews}) ? 'yes' : 'no'",
                    f"attribute.{DEPLOYS}": f"({said.deploys}) ? 'yes' : 'no'",
                },
                oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=said.issuer),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.providers[forge] = provider.name
        self.register_outputs({"providers": self.providers})

    def members(self, attribute: str) -> pulumi.Output[str]:
        """All jobs that have an attribute, as an IAM member."""
        return pulumi.Output.concat(
            "principalSet://iam.googleapis.com/", self._pool.name, f"/attribute.{attribute}/yes"
        )


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
    return Forge(
        issuer=url,
        trusted=f"assertion.project_id == '{project_id}'",
        previews="true",
        deploys=f"assertion.ref == '{main_branch}' && assertion.ref_type == 'branch' && "
        "assertion.ref_protected == 'true'",
    )


@dataclass(frozen=True, kw_only=True)
class JobIdentityArgs:
    """Arguments of `JobIdentity`.

    Args:
        project: Project id, known once its APIs are enabled.
        jobs: The jobs that may act as it, as an IAM member.
    """

    project: pulumi.Input[str]
    display_name: str
    jobs: pulumi.Input[str]
    roles: Iterable[str]


class JobIdentity(pulumi.ComponentResource):
    """A service account without a key, which the jobs of one kind, and nobody else, act as.

    Attributes:
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
