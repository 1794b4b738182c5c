"""Errors about what a setting names, in the words of Google, Kubernetes and their providers."""

from typing import Final

from tests.components.error_kinds import BUCKET, BUILD, CLUSTER, JOB, MEMBER, POOL, SERVICE

KEY = "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"
RELEASE, DEPLOYMENT, SECRET, SUBNET = (
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:apps/v1:Deployment",
    "gcp:secretmanager/secretVersion:SecretVersion",
    "gcp:compute/subnetwork:Subnetwork",
)
WAITING = "Error waiting for creating GKE cluster: Google Compute Engine: "
KEY_OF_GOOGLE, KEY_IS_OFF, KEY_ELSEWHERE = (
    "Google's own accounts may not use `kmsKey`",
    "is off",
    "own location",
)
HOST, GRANTS = "shares no network", "roles/compute.networkUser in its project"
FULL, RANGES, CONFLICT = "no addresses left", "two secondary ranges", "in use there or across a peering"
CANNOT_RESERVE, NO_MACHINES, NO_PLACE = (
    "`capacity.reservation` cannot",
    "no such machines: set",
    "no such place",
)
ACT_AS, AGENTS, READ_IMAGE = "may not hand out", "Google's own service agents", "may not read the image"
NOT_UP, NO_IMAGE, NOT_READY = "the server did not come up", "there is no such image", "its pods are not ready"

# Type of the resource, what its provider says, and words that only the right remedy has.
SETTING_TEXTS: Final = (
    # Keys: the account that may not is Google's, so the line about the caller's rights would be wrong.
    (
        BUCKET,
        "googleapi: Error 403: Permission denied on Cloud KMS key. Please ensure that your Cloud Storage "
        "service account has been authorized to use this key., forbidden",
        KEY_OF_GOOGLE,
    ),
    (
        SECRET,
        f"googleapi: Error 400: {KEY} is not accessible. Please grant service-1@gcp-sa-secretmanager.iam."
        "gserviceaccount.com the role roles/cloudkms.cryptoKeyEncrypterDecrypter",
        KEY_OF_GOOGLE,
    ),
    (
        CLUSTER,
        "googleapi: Error 403: Permission 'cloudkms.cryptoKeyVersions.useToEncrypt' denied on resource "
        f"'{KEY}' (or it may not exist)., forbidden",
        KEY_OF_GOOGLE,
    ),
    (
        "gcp:artifactregistry/repository:Repository",
        f"Error code 7, message: Permission denied: service account cannot use key {KEY}",
        KEY_OF_GOOGLE,
    ),
    (
        BUCKET,
        f"googleapi: Error 400: Cloud KMS key version {KEY}/cryptoKeyVersions/1 is not enabled, current "
        f"state "
        "is: DISABLED., failedPrecondition",
        KEY_IS_OFF,
    ),
    (
        SECRET,
        f"googleapi: Error 400: {KEY}/cryptoKeyVersions/2 is destroyed., failedPrecondition",
        KEY_IS_OFF,
    ),
    (
        BUCKET,
        "googleapi: Error 400: The Cloud KMS key is not in the same location as the bucket., invalid",
        KEY_ELSEWHERE,
    ),
    (
        BUCKET,
        f"googleapi: Error 400: Cloud KMS key '{KEY}' is not available in location 'europe-west4'., invalid",
        KEY_ELSEWHERE,
    ),
    (BUCKET, f"googleapi: Error 404: CryptoKey {KEY} not found., notFound", "keys list --keyring"),
    # A Shared VPC.
    (
        CLUSTER,
        "googleapi: Error 400: Project 'host' is not a shared VPC host project., badRequest",
        HOST,
    ),
    (
        SERVICE,
        "Error code 9, message: The service project 123 is not attached to host project 'host'.",
        HOST,
    ),
    (
        CLUSTER,
        "googleapi: Error 403: The Kubernetes Engine service agent is missing roles/container."
        "hostServiceAgentUser on the host project., forbidden",
        GRANTS,
    ),
    (
        CLUSTER,
        WAITING + "Required 'compute.subnetworks.use' permission for "
        "'projects/host/regions/us-central1/subnetworks/s'",
        GRANTS,
    ),
    (
        SERVICE,
        "Error code 7, message: Cloud Run Service Agent does not have permission to use subnetwork s.",
        GRANTS,
    ),
    # Addresses.
    (
        CLUSTER,
        WAITING
        + "Invalid value for field 'resource.secondaryIpRanges[1].ipCidrRange': '10.8.0.0/20'. Invalid "
        "IPCidrRange: 10.8.0.0/20 conflicts with peer network of peer network in active peering 'infra'.",
        CONFLICT,
    ),
    (
        SUBNET,
        "Error waiting to create Subnetwork: Invalid IPCidrRange: 10.0.0.0/20 conflicts with existing "
        "subnetwork 'default' in region 'us-central1'.",
        CONFLICT,
    ),
    (
        SUBNET,
        "googleapi: Error 400: Invalid value: the range 10.4.0.0/16 overlaps with the range 10.4.128.0/17 of "
        "subnet other., invalid",
        CONFLICT,
    ),
    (
        POOL,
        "Error waiting for creating GKE NodePool: Not all instances running in IGM after 1m13s. Expected 1, "
        "running 0, transitioning 1. Current errors: [IP_SPACE_EXHAUSTED]: Instance 'gke-x' creation failed: "
        "IP space of 'projects/p/regions/us-central1/subnetworks/s' is exhausted.",
        FULL,
    ),
    (
        CLUSTER,
        'googleapi: Error 400: The network "default" does not have available private IP space in 10.0.0.0/8 '
        "to reserve a /14 block for pods for cluster c., badRequest",
        FULL,
    ),
    (
        CLUSTER,
        'googleapi: Error 400: Pod secondary range "pods" not found in network "default", subnetwork '
        '"default"., badRequest',
        RANGES,
    ),
    (
        CLUSTER,
        'googleapi: Error 400: Services range "services" in network "n", subnetwork "s" is already used by '
        "another cluster., badRequest",
        RANGES,
    ),
    # Places.
    (
        POOL,
        "googleapi: Error 400: Reservation projects/owner/reservations/mine does not exist in zone "
        "us-east5-b",
        CANNOT_RESERVE,
    ),
    (
        POOL,
        "googleapi: Error 400: Specified reservation [mine] could not be found., badRequest",
        CANNOT_RESERVE,
    ),
    (
        POOL,
        'googleapi: Error 400: Accelerator type "nvidia-l4" does not exist in zone us-west2-a., badRequest',
        NO_MACHINES,
    ),
    (
        POOL,
        "googleapi: Error 400: Machine type with name 'ct6e-standard-4t' does not exist in zone "
        "'us-west2-a'., badRequest",
        NO_MACHINES,
    ),
    (
        CLUSTER,
        "googleapi: Error 403: Permission denied on 'locations/us-centrall' (or it may not exist)., "
        "forbidden",
        NO_PLACE,
    ),
    (
        SUBNET,
        "googleapi: Error 400: Invalid value for field 'region': 'us-centrall'. Unknown region., invalid",
        NO_PLACE,
    ),
    (
        CLUSTER,
        'googleapi: Error 400: Master version "1.30.5-gke.1014003" is unsupported., badRequest',
        "get-server-config",
    ),
    (
        POOL,
        'googleapi: Error 400: No valid versions with the prefix "1.30" found., badRequest',
        "get-server-config",
    ),
    # Accounts.
    (
        CLUSTER,
        "googleapi: Error 400: The user does not have access to service account "
        '"x@p.iam.gserviceaccount.com". '
        "Ask a project owner to grant you the iam.serviceAccountUser role on the service account., "
        "badRequest",
        ACT_AS,
    ),
    (
        SERVICE,
        "googleapi: Error 403: Permission 'iam.serviceaccounts.actAs' denied on service account "
        "x@p.iam.gserviceaccount.com (or it may not exist)., forbidden",
        ACT_AS,
    ),
    (
        MEMBER,
        "Error setting IAM policy: googleapi: Error 400: One or more users named in the policy do not "
        "belong to "
        "a permitted customer. User service-1@gcp-sa-x.iam.gserviceaccount.com is not in permitted "
        "organization.",
        AGENTS,
    ),
    (
        SERVICE,
        "Error code 7, message: Google Cloud Run Service Agent service-1@serverless-robot-prod.iam."
        "gserviceaccount.com must have permission to read the image, us-docker.pkg.dev/p/r/i.",
        READ_IMAGE,
    ),
    (
        SERVICE,
        "Error code 7, message: Permission denied on secret: projects/1/secrets/s/versions/latest for "
        "Revision "
        "service account x@p.iam.gserviceaccount.com. The service account used must be granted the 'Secret "
        "Manager Secret Accessor' role",
        "may not read the secret yet",
    ),
    # Programs.
    *(
        (SERVICE, f"Error code 9, message: container exited: RuntimeError: CUDA error: {words}", "CUDA 12.8")
        for words in (
            "the provided PTX was compiled with an unsupported toolchain",
            "Error 803: system has unsupported display driver / cuda driver combination",
        )
    ),
    (
        SERVICE,
        "Error code 9, message: The user-provided container failed to start and listen on the port defined "
        "provided by the PORT=8000 environment variable within the allocated timeout.",
        NOT_UP,
    ),
    (
        SERVICE,
        "Error code 9, message: The user-provided container failed the configured startup probe checks.",
        NOT_UP,
    ),
    (SERVICE, "Error code 5, message: Image 'us-docker.pkg.dev/p/r/i@sha256:1' not found.", NO_IMAGE),
    (
        BUILD,
        "error building image: GET https://us-docker.pkg.dev/v2/p/r/manifests/x: MANIFEST_UNKNOWN: no such",
        NO_IMAGE,
    ),
    (
        DEPLOYMENT,
        'the Kubernetes API server reported that "serving/vllm" failed to fully initialize or become live: '
        "'vllm' timed out waiting to be Ready",
        NOT_READY,
    ),
    (
        DEPLOYMENT,
        "2 errors occurred:\n\t* Minimum number of live Pods was not attained\n\t* [Pod vllm-1]: containers "
        "with unready status: [vllm]",
        NOT_READY,
    ),
    (
        DEPLOYMENT,
        "[Pod vllm-1]: containers with unready status: [vllm] -- [ImagePullBackOff] Back-off pulling "
        'image "x"',
        "an image cannot be pulled",
    ),
    (RELEASE, "another operation (install/upgrade/rollback) is in progress", "Helm's record"),
    (RELEASE, "cannot re-use a name that is still in use", "Helm's record"),
    (
        RELEASE,
        "failed to download oci://registry.k8s.io/kueue/charts/kueue chart at version 0.19.2",
        "comes from registry.k8s.io",
    ),
    # A line of its own stays for these, which have words of the rows above.
    (
        JOB,
        "Job trial-1 failed: Container trial failed with exit code 2 matching FailJob rule at index 2; pod: "
        "[Error] error: image 'x' not found",
        "trains all the same",
    ),
)
