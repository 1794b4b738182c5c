"""The state's bucket and key, the trust in the forges, and the two identities of their jobs."""

from dataclasses import dataclass
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
from components.project_services import ProjectServices, ProjectServicesArgs

_APIS: Final = (
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
_QUARTER: Final = f"{90 * 24 * 3600}s"
# By age and not by number: one `up` writes the state once per resource.
_KEPT_DAYS: Final = 30


@dataclass(frozen=True, kw_only=True)
class StateStoreArgs:
    """Arguments of `StateStore`.

    Args:
        project: Project id, known once its APIs are enabled.
    """

    project: pulumi.Input[str]
    location: str


class StateStore(pulumi.ComponentResource):
    """A bucket with a history, and a key; neither is destroyed with the bootstrap.

    Attributes:
        bucket_name: The bucket's name, without `gs://`.
        key_id: Id of the key, `projects/...`.
    """

    def __init__(self, name: str, args: StateStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("llm-stacks-bootstrap:components:StateStore", name, None, opts)
        # Without the state nothing knows what exists; without the key nothing can read the state.
        kept = pulumi.ResourceOptions(parent=self, protect=True)
        bucket = gcp.storage.Bucket(
            f"{name}-bucket",
            project=args.project,
            location=args.location,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=gcp.storage.BucketVersioningArgs(enabled=True),
            # A version goes a month after a newer one took its place.
            lifecycle_rules=[
                gcp.storage.BucketLifecycleRuleArgs(
                    action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=gcp.storage.BucketLifecycleRuleConditionArgs(
                        days_since_noncurrent_time=_KEPT_DAYS, with_state="ARCHIVED"
                    ),
                )
            ],
            force_destroy=False,
            opts=kept,
        )
        ring = gcp.kms.KeyRing(f"{name}-ring", project=args.project, location=args.location, opts=kept)
        key = gcp.kms.CryptoKey(
            f"{name}-key", key_ring=ring.id, purpose="ENCRYPT_DECRYPT", rotation_period=_QUARTER, opts=kept
        )
        self.bucket_name: pulumi.Output[str] = bucket.name
        self.key_id: pulumi.Output[str] = key.id
        self.register_outputs({"bucket": bucket.name, "key": key.id})


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
