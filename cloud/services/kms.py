"""Cloud KMS: a key of the user's, and Google's own accounts that use it for the stack's resources."""

from collections.abc import Mapping
from typing import Final

from cloud.services import artifactregistry, cloudrun, container, secretmanager, storage

ENCRYPTER: Final = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
# A stack names a key and creates none.
KEY: Final = "gcp:kms/cryptoKey:CryptoKey"
_DISKS: Final = "service-{number}@compute-system.iam.gserviceaccount.com"
_RUN: Final = "service-{number}@serverless-robot-prod.iam.gserviceaccount.com"
# Accounts that encrypt and decrypt with the key, by the type of the resource that has it.
# https://docs.cloud.google.com/kms/docs/compatible-services
AGENTS: Final[Mapping[str, tuple[str, ...]]] = {
    artifactregistry.REPOSITORY.type: ("service-{number}@gcp-sa-artifactregistry.iam.gserviceaccount.com",),
    container.CLUSTER.type: ("service-{number}@container-engine-robot.iam.gserviceaccount.com", _DISKS),
    container.NODE_POOL.type: (_DISKS,),
    cloudrun.JOB.type: (_RUN,),
    cloudrun.SERVICE.type: (_RUN,),
    secretmanager.SECRET.type: ("service-{number}@gcp-sa-secretmanager.iam.gserviceaccount.com",),
    storage.BUCKET.type: ("service-{number}@gs-project-accounts.iam.gserviceaccount.com",),
}
