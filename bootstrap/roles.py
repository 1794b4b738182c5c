"""What the two identities of the pipelines may do in the project, and why."""

from collections.abc import Mapping
from typing import Final

# Reads what the stacks are made of, to compare it with the state. None of these reads a secret's payload or
# an object of a bucket, or lets it act as another account.
PREVIEW: Final[Mapping[str, str]] = {
    "roles/artifactregistry.reader": "the repository of the training image",
    "roles/compute.viewer": "network, subnet, router and NAT, the reservation",
    "roles/container.viewer": "the cluster, its node pools, and the objects in it",
    "roles/iam.securityReviewer": "who has which role, on the project and on each resource",
    "roles/iam.serviceAccountViewer": "the service accounts",
    "roles/run.viewer": "the Cloud Run job and service",
    "roles/secretmanager.viewer": "that the secrets exist, not what is in them",
    "roles/serviceusage.serviceUsageViewer": "which APIs are enabled",
    "roles/storage.bucketViewer": "the bucket, not the objects in it",
}

# Creates and deletes all that the stacks are made of. docs/first-run.md asks a person for these roles and
# for the one that gives roles, which is `GRANTER` on a condition here.
DEPLOY: Final[Mapping[str, str]] = {
    "roles/artifactregistry.admin": "the repository of the training image, and who reads it",
    "roles/cloudbuild.builds.editor": "the build of the training image",
    "roles/compute.networkAdmin": "network, subnet, router and NAT",
    "roles/compute.viewer": "the reservation and the quotas, which `preflight` looks at",
    "roles/container.admin": "the cluster, its node pools, and the objects in it",
    "roles/iam.serviceAccountAdmin": "the service accounts of nodes, builds and Cloud Run",
    "roles/iam.serviceAccountUser": "machines, builds and services that run as those accounts",
    "roles/logging.viewer": "the end of a failed build's log",
    "roles/run.admin": "the Cloud Run job and service, and who calls it",
    "roles/secretmanager.admin": "the secrets with the training's tokens, and who reads them",
    "roles/serviceusage.serviceUsageAdmin": "enabling APIs",
    "roles/storage.admin": "the bucket, and who uses it; the state",
}

# Whoever may give any role has every role. The stacks give three on the project; the condition allows these.
# https://docs.cloud.google.com/iam/docs/setting-limits-on-granting-roles
GRANTER: Final = "roles/resourcemanager.projectIamAdmin"
GRANTED: Final = (
    "roles/container.defaultNodeServiceAccount",
    "roles/logging.logWriter",
    "roles/serviceusage.serviceUsageConsumer",
)

# On the state's bucket and key alone. A preview reads the state and the stack's secret settings, so it
# decrypts; it writes neither.
STATE_READER: Final = "roles/storage.objectViewer"
DECRYPTER: Final = "roles/cloudkms.cryptoKeyDecrypter"
ENCRYPTER: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
