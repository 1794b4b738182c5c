"""The state's bucket and key, the trust in the forges, and the two identities of their jobs."""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from bootstrap import roles
from bootstrap.federation import (
    DEPLOYS,
    PREVIEWS,
    Federation,
    FederationArgs,
    Forge,
    JobIdentity,
    JobIdentityArgs,
    github,
    gitlab,
)
from bootstrap.settings import Settings
from bootstrap.state_store import StateStore, StateStoreArgs
from components.project_services import ProjectServices, ProjectServicesArgs

_APIS: Final = (
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the resources and returns what the forges must be told."""
    services = ProjectServices("llm", ProjectServicesArgs(project=settings.project))
    project = services.project_with(*_APIS)
    store = StateStore("llm-state", StateStoreArgs(project=project, location=settings.region))
    federation = Federation("llm", FederationArgs(project=project, forges=_forges(settings)))
    preview, deploy = (
        JobIdentity(
            name,
            JobIdentityArgs(
                project=project, display_name=purpose, jobs=federation.members(attribute), roles=given
            ),
        )
        for name, purpose, attribute, given in (
            ("llm-preview", "Previews of merge requests, and drift: reads only", PREVIEWS, roles.PREVIEW),
            ("llm-deploy", "pulumi up from the main branch", DEPLOYS, roles.DEPLOY),
        )
    )
    _open_state(store, preview, deploy)
    granted = ", ".join(f"'{role}'" for role in roles.GRANTED)
    gcp.projects.IAMMember(
        "llm-deploy-granter",
        project=project,
        role=roles.GRANTER,
        member=deploy.member,
        condition=gcp.projects.IAMMemberConditionArgs(
            title="Only the roles that stacks give",
            expression="api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
            f".hasOnly([{granted}])",
        ),
    )
    return {
        "PULUMI_BACKEND_URL": pulumi.Output.concat("gs://", store.bucket_name),
        "secretsProvider": pulumi.Output.concat("gcpkms://", store.key_id),
        **{f"GOOGLE_PROVIDER at {forge}": name for forge, name in federation.providers.items()},
        "GOOGLE_PREVIEW_ACCOUNT": preview.email,
        "GOOGLE_DEPLOY_ACCOUNT": deploy.email,
    }


def _forges(settings: Settings) -> dict[str, Forge]:
    """Those that the repository is at."""
    forges, branch = {}, settings.main_branch
    if settings.github_repository and settings.github_repository_id:
        forges["github"] = github(settings.github_repository, settings.github_repository_id, branch)
    if settings.gitlab_project_id:
        forges["gitlab"] = gitlab(settings.gitlab_url, settings.gitlab_project_id, branch)
    return forges


def _open_state(store: StateStore, preview: JobIdentity, deploy: JobIdentity) -> None:
    """Who reads the state and its secrets; the deploy identity writes by its role on the project."""
    gcp.storage.BucketIAMMember(
        "llm-preview-state", bucket=store.bucket_name, role=roles.STATE_READER, member=preview.member
    )
    for name, role, identity in (
        ("llm-preview-key", roles.DECRYPTER, preview),
        ("llm-deploy-key", roles.ENCRYPTER, deploy),
    ):
        gcp.kms.CryptoKeyIAMMember(name, crypto_key_id=store.key_id, role=role, member=identity.member)
