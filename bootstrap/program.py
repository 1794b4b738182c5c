"""The buckets and key of the state, the trust in the forges, and the identities of jobs and stacks."""

from collections.abc import Mapping
from types import ModuleType
from typing import Final

import pulumi
import pulumi_gcp as gcp

from bootstrap import roles
from bootstrap.accounts import stack_accounts
from bootstrap.federation import DEPLOYS, PREVIEWS, Forge, admit, github, gitlab, job_identity
from bootstrap.settings import Settings
from components.base.project_services import ProjectServices, ProjectServicesArgs

_APIS: Final = (
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
# The engine runs code from a state. An owner runs the bootstrap, so no pipeline has a role on its bucket.
_STACKS_BUCKET: Final = "llm-state-bucket"
_OWN_BUCKET: Final = "llm-bootstrap-bucket"
_QUARTER: Final = f"{90 * 24 * 3600}s"
# Old versions of the state are deleted by age, not by number: one `up` writes one version per resource.
_KEPT_DAYS: Final = 30


def build(settings: Settings, scenarios: Mapping[str, ModuleType]) -> dict[str, pulumi.Input[str]]:
    """Declares the resources and returns the values that the forges need as variables.

    Args:
        scenarios: Modules of all scenarios by name.
    """
    services = ProjectServices("llm", ProjectServicesArgs(project=settings.project))
    project = services.project_with(*_APIS)
    bounds = roles.conditions(scenarios, not_for=(_STACKS_BUCKET, _OWN_BUCKET))
    bucket = _state_bucket(_STACKS_BUCKET, project, settings)
    own_bucket = _state_bucket(_OWN_BUCKET, project, settings)
    key = _state_key(project, settings.region)
    pool = gcp.iam.WorkloadIdentityPool(
        "llm-pool",
        project=project,
        # Google keeps a deleted pool and its id for 30 days. `gcloud iam workload-identity-pools undelete`
        # restores the pool.
        workload_identity_pool_id="llm-forges",
        display_name="Pipelines of the LLM stacks",
    )
    providers = {name: admit(pool, name, forge) for name, forge in _forges(settings).items()}
    reads = "Previews of merge requests, and drift: reads only"
    preview = job_identity("llm-preview", pool, reads, PREVIEWS, roles.PREVIEW)
    writes = "pulumi up from the main branch"
    deploy = job_identity("llm-deploy", pool, writes, DEPLOYS, roles.DEPLOY, bounds)
    for name, role, identity in (
        ("llm-preview-state", roles.STATE_READER, preview),
        ("llm-deploy-state", roles.STATE_WRITER, deploy),
    ):
        gcp.storage.BucketIAMMember(name, bucket=bucket.name, role=role, member=identity.member)
    for name, role, identity in (
        ("llm-preview-key", roles.DECRYPTER, preview),
        ("llm-deploy-key", roles.ENCRYPTER, deploy),
    ):
        gcp.kms.CryptoKeyIAMMember(name, crypto_key_id=key.id, role=role, member=identity.member)
    _let_alert_on_logs(project, deploy)
    commands = stack_accounts(project, settings.stacks, scenarios, deploy)
    return {
        "PULUMI_BACKEND_URL": pulumi.Output.concat("gs://", bucket.name),
        "bootstrapBackend": pulumi.Output.concat("gs://", own_bucket.name),
        "secretsProvider": pulumi.Output.concat("gcpkms://", key.id),
        **{f"GOOGLE_PROVIDER at {forge}": name for forge, name in providers.items()},
        "GOOGLE_PREVIEW_ACCOUNT": preview.email,
        "GOOGLE_DEPLOY_ACCOUNT": deploy.email,
        **commands,
    }


def _let_alert_on_logs(project: pulumi.Input[str], deploy: gcp.serviceaccount.Account) -> None:
    role = gcp.projects.IAMCustomRole(
        "llm-log-alerts",
        project=project,
        # Google keeps a deleted role and its id for a week.
        role_id="llmLogAlerts",
        title="Alerts of the LLM stacks on logs",
        permissions=list(roles.ALERTS_ON_LOGS),
    )
    gcp.projects.IAMMember("llm-deploy-log-alerts", project=project, role=role.name, member=deploy.member)


def _state_bucket(name: str, project: pulumi.Input[str], settings: Settings) -> gcp.storage.Bucket:
    """A bucket for state, which keeps old versions. Destroy keeps the bucket.

    Only the project's owners have roles that Google gives to basic roles on a new bucket. Without these
    bindings viewers of the project could read every object, and editors could write them.
    https://docs.cloud.google.com/storage/docs/access-control/iam-roles#basic-roles-modifiable
    """
    bucket = gcp.storage.Bucket(
        name,
        project=project,
        location=settings.region,
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        versioning=gcp.storage.BucketVersioningArgs(enabled=True),
        # Deletes a version a month after a newer one has replaced it.
        lifecycle_rules=[
            gcp.storage.BucketLifecycleRuleArgs(
                action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                condition=gcp.storage.BucketLifecycleRuleConditionArgs(
                    days_since_noncurrent_time=_KEPT_DAYS, with_state="ARCHIVED"
                ),
            )
        ],
        force_destroy=False,
        # Without the state Pulumi does not know what exists.
        opts=pulumi.ResourceOptions(protect=True),
    )
    for role in roles.LEGACY:
        gcp.storage.BucketIAMBinding(
            f"{name}-{role.rpartition('.')[2]}",
            bucket=bucket.name,
            role=role,
            members=[f"projectOwner:{settings.project}"],
        )
    return bucket


def _state_key(project: pulumi.Input[str], location: str) -> gcp.kms.CryptoKey:
    """The key of the stacks' state. Destroy keeps it, because without it nobody can read the state."""
    kept = pulumi.ResourceOptions(protect=True)
    ring = gcp.kms.KeyRing("llm-state-ring", project=project, location=location, opts=kept)
    return gcp.kms.CryptoKey(
        "llm-state-key", key_ring=ring.id, purpose="ENCRYPT_DECRYPT", rotation_period=_QUARTER, opts=kept
    )


def _forges(settings: Settings) -> dict[str, Forge]:
    """The forges that host the repository."""
    forges, branch = {}, settings.main_branch
    if settings.github_repository and settings.github_repository_id:
        forges["github"] = github(settings.github_repository, settings.github_repository_id, branch)
    if settings.gitlab_project_id:
        forges["gitlab"] = gitlab(settings.gitlab_url, settings.gitlab_project_id, branch)
    return forges
