"""Roles of the pipelines' two identities in the project, and the reason for each role."""

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Final

from components.identity.token import HuggingFaceToken, WandbKey

# Roles that read the stacks' resources, to compare them with the state. None of them reads a secret's payload
# or an object in a bucket, and none allows acting as another account.
PREVIEW: Final[Mapping[str, str]] = {
    "roles/artifactregistry.reader": "the repository of the training image",
    "roles/compute.viewer": "network, subnet, router and NAT, the reservation",
    "roles/container.viewer": "the cluster, its node pools, and the objects in it",
    "roles/iam.securityReviewer": "who has which role, on the project and on each resource",
    "roles/iam.serviceAccountViewer": "the service accounts",
    "roles/monitoring.viewer": "the dashboard and the alerts",
    "roles/run.viewer": "the Cloud Run job and service",
    "roles/secretmanager.viewer": "that the secrets exist, not what is in them",
    "roles/serviceusage.serviceUsageViewer": "which APIs are enabled",
    "roles/storage.bucketViewer": "the bucket, not the objects in it",
}

# Roles that create and delete the stacks' resources. docs/first-run.md asks a person for the same, and for
# three roles that create service accounts, act as them and grant them roles. Here the bootstrap does that,
# in bootstrap/accounts.py.
DEPLOY: Final[Mapping[str, str]] = {
    "roles/artifactregistry.admin": "the repository of the training image, and who reads it",
    "roles/cloudbuild.builds.editor": "the build of the training image",
    "roles/compute.networkAdmin": "network, subnet, router and NAT",
    "roles/compute.viewer": "the reservation and the quotas, which `preflight` looks at",
    "roles/container.admin": "the cluster, its node pools, and the objects in it",
    "roles/logging.viewer": "the end of a failed build's log",
    "roles/monitoring.alertPolicyEditor": "the alerts",
    "roles/monitoring.dashboardEditor": "the dashboard",
    "roles/monitoring.notificationChannelEditor": "the address that the alerts go to",
    "roles/run.admin": "the Cloud Run job and service, and who calls it",
    "roles/secretmanager.admin": "the secrets with the training's tokens, and who reads them, no others",
    "roles/serviceusage.serviceUsageAdmin": "enabling APIs",
    "roles/storage.admin": "the stacks' buckets, and who uses them, no others",
}

# What Google asks for beside the role for alerts (assumption log-alert-role). Its own role with these
# permissions could send all logs of the project elsewhere.
ALERTS_ON_LOGS: Final = tuple(
    f"logging.notificationRules.{verb}" for verb in ("create", "delete", "get", "update")
)


def conditions(scenarios: Collection[str], not_for: Iterable[str] = ()) -> dict[str, str]:
    """Conditions on roles of `DEPLOY`, by role: which buckets and secrets (assumption bounded-roles).

    Rights such as creating a bucket are rights on the project, which has another type and passes.
    https://docs.cloud.google.com/iam/docs/conditions-resource-attributes

    Args:
        scenarios: Names of the scenarios, with which the names of their buckets begin.
        not_for: Names of buckets that no scenario's name may admit.

    Raises:
        ValueError: If a scenario's name admits one of them.
    """
    for scenario, bucket in product(scenarios, not_for):
        if bucket.startswith(f"{scenario}-"):
            raise ValueError(
                f"scenario {scenario}: the pipelines would own the bucket {bucket}, because its "
                "name begins with the scenario's; give the scenario's module another name"
            )
    buckets = [f"resource.name.startsWith('projects/_/buckets/{name}-')" for name in sorted(scenarios)]
    secrets = [
        f"{name}.endsWith('-{token.title}')"
        for token in (HuggingFaceToken, WandbKey)
        for name in ("resource.name", "resource.name.extract('{secret}/versions/')")
    ]
    return {
        "roles/storage.admin": _only(
            "storage.googleapis.com", ("Bucket", "Object", "ManagedFolder"), buckets
        ),
        "roles/secretmanager.admin": _only(
            "secretmanager.googleapis.com", ("Secret", "SecretVersion"), secrets
        ),
    }


def _only(service: str, types: Iterable[str], allowed: Iterable[str]) -> str:
    """A condition that bounds resources of these types, and nothing else."""
    others = " && ".join(f"resource.type != '{service}/{type}'" for type in types)
    return " || ".join((f"({others})", *allowed))


# What Google gives to the project's viewers, editors and owners on a new bucket.
LEGACY: Final = tuple(
    f"roles/storage.legacy{role}" for role in ("BucketReader", "BucketOwner", "ObjectReader", "ObjectOwner")
)

# Roles on the state's bucket and key only. A preview reads the state and the stack's secret settings, so it
# must decrypt. It writes neither. `up` writes objects of the bucket, and cannot change or delete the bucket.
STATE_READER: Final = "roles/storage.objectViewer"
STATE_WRITER: Final = "roles/storage.objectAdmin"
DECRYPTER: Final = "roles/cloudkms.cryptoKeyDecrypter"
ENCRYPTER: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
