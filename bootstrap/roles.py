"""Roles of the pipelines' two identities in the project, and the reason for each role."""

from collections.abc import Mapping
from typing import Final

# Roles that read the stacks' resources, to compare them with the state. None of them reads a secret's payload
# or an object in a bucket, and none allows acting as another account.
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

# Roles that create and delete the stacks' resources. docs/first-run.md asks a person for these roles and for
# the role that grants roles. Here that role is `GRANTER`, with a condition.
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

# An identity that may grant any role effectively has every role. The stacks grant three roles on the project,
# and a condition allows only these.
# https://docs.cloud.google.com/iam/docs/setting-limits-on-granting-roles
GRANTER: Final = "roles/resourcemanager.projectIamAdmin"
GRANTED: Final = (
    "roles/container.defaultNodeServiceAccount",
    "roles/logging.logWriter",
    "roles/serviceusage.serviceUsageConsumer",
)

# Roles on the state's bucket and key only. A preview reads the state and the stack's secret settings, so it
# must decrypt. It writes neither.
STATE_READER: Final = "roles/storage.objectViewer"
DECRYPTER: Final = "roles/cloudkms.cryptoKeyDecrypter"
ENCRYPTER: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
