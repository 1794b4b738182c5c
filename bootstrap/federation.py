"""Who a pipeline's job is at Google, by the token that its forge signs: no key is stored anywhere."""

from collections.abc import Mapping
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
_GITHUB_ISSUER: Final = "https://token.actions.githubusercontent.com"


@dataclass(frozen=True, kw_only=True)
class GitHub:
    """A repository at GitHub.

    Args:
        repository: `owner/name`.
        repository_id: Its number.
    """

    repository: str
    repository_id: str


@dataclass(frozen=True, kw_only=True)
class GitLab:
    """A project at GitLab.

    Args:
        project_id: Its number.
        url: Address of the GitLab.
    """

    project_id: str
    url: str


@dataclass(frozen=True, kw_only=True)
class FederationArgs:
    """Arguments of `Federation`.

    Args:
        project: Project id, known once its APIs are enabled.
        main_branch: The branch that may deploy.
        github: The repository at GitHub, if it is there.
        gitlab: The project at GitLab, if it is there.
    """

    project: pulumi.Input[str]
    main_branch: str
    github: GitHub | None = None
    gitlab: GitLab | None = None


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
        self._name = name
        self._project = args.project
        self.providers: dict[str, pulumi.Output[str]] = {}
        if args.github:
            self._trust("github", _GITHUB_ISSUER, *github_rules(args.github, args.main_branch))
        if args.gitlab:
            self._trust("gitlab", args.gitlab.url, *gitlab_rules(args.gitlab, args.main_branch))
        self.register_outputs({"providers": self.providers})

    def members(self, attribute: str) -> pulumi.Output[str]:
        """All jobs that have an attribute, as an IAM member."""
        return pulumi.Output.concat(
            "principalSet://iam.googleapis.com/", self._pool.name, f"/attribute.{attribute}/yes"
        )

    def _trust(self, forge: str, issuer: str, condition: str, mapping: Mapping[str, str]) -> None:
        provider = gcp.iam.WorkloadIdentityPoolProvider(
            f"{self._name}-{forge}",
            project=self._project,
            workload_identity_pool_id=self._pool.workload_identity_pool_id,
            workload_identity_pool_provider_id=forge,
            # Every repository of the forge has tokens of this issuer: without the condition all were trusted.
            attribute_condition=condition,
            attribute_mapping=mapping,
            oidc=gcp.iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=issuer),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.providers[forge] = provider.name


def github_rules(repository: GitHub, main_branch: str) -> tuple[str, dict[str, str]]:
    """Condition and attributes for jobs of GitHub.

    A job of an environment has the environment, and nothing else, behind the repository in its subject.
    https://docs.github.com/actions/reference/security/oidc
    """
    condition = (
        f"assertion.repository == '{repository.repository}' && "
        f"assertion.repository_id == '{repository.repository_id}'"
    )
    subject = f"repo:{repository.repository}:environment"
    deploys = (
        f"assertion.sub == '{subject}:production' && assertion.ref == 'refs/heads/{main_branch}' && "
        "assertion.event_name == 'workflow_dispatch'"
    )
    return condition, _attributes(f"assertion.sub == '{subject}:preview'", deploys)


def gitlab_rules(project: GitLab, main_branch: str) -> tuple[str, dict[str, str]]:
    """Condition and attributes for jobs of GitLab; a fork is a project with another number.

    https://docs.gitlab.com/ci/secrets/id_token_authentication/
    """
    condition = f"assertion.project_id == '{project.project_id}'"
    deploys = (
        f"assertion.ref == '{main_branch}' && assertion.ref_type == 'branch' && "
        "assertion.ref_protected == 'true'"
    )
    return condition, _attributes("true", deploys)


def _attributes(previews: str, deploys: str) -> dict[str, str]:
    return {
        "google.subject": "assertion.sub",
        f"attribute.{PREVIEWS}": f"({previews}) ? 'yes' : 'no'",
        f"attribute.{DEPLOYS}": f"({deploys}) ? 'yes' : 'no'",
    }
