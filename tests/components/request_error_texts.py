"""Errors about a project, a quota, a value, a member or an object that is not there, in their own words."""

from typing import Final

from tests.components.error_kinds import BUCKET, BUILD, CLUSTER, JOB, MEMBER, NAMESPACE, POOL, SERVICE

ACCOUNT, SECRET, BINDING, RELEASE, DEPLOYMENT, CLASS = (
    "gcp:serviceaccount/account:Account",
    "gcp:secretmanager/secretVersion:SecretVersion",
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:apps/v1:Deployment",
    "kubernetes:cloud.google.com/v1:ComputeClass",
)
API, CHANNEL, POLICY = (
    "gcp:projects/service:Service",
    "gcp:monitoring/notificationChannel:NotificationChannel",
    "gcp:monitoring/alertPolicy:AlertPolicy",
)
NO_PROJECT, GONE, NO_VALUE, NO_MEMBER = (
    "the project of `gcp:project` does not exist",
    "it is not there",
    "does not take a value",
    "a person, a group or a domain that Google",
)
STILL_GOING, FIXED, NO_OBJECT = (
    "still being deleted",
    "stays as it is for its life",
    "does not take the object",
)
NO_DISK, NO_ACCOUNTS, DOCKER_HUB = (
    "does not take such a disk",
    "as many service accounts",
    "Docker Hub limits",
)

# Type of the resource, what its provider says, and words that only the right remedy has.
REQUEST_TEXTS: Final = (
    # The login.
    (
        API,
        "googleapi: Error 403: Request had insufficient authentication scopes. Details: reason: "
        "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
        "leaves this API out",
    ),
    (
        API,
        "impersonate: status code 403: Permission 'iam.serviceAccounts.getAccessToken' denied on resource",
        "serviceAccountTokenCreator",
    ),
    # The project and its billing.
    (
        API,
        "googleapi: Error 403: Project 'projects/p' not found or permission denied., forbidden",
        NO_PROJECT,
    ),
    (API, "googleapi: Error 400: Unknown project id: p, invalid", NO_PROJECT),
    (BUCKET, "googleapi: Error 403: Consumer 'project:p' has been suspended., forbidden", NO_PROJECT),
    (CLUSTER, "googleapi: Error 403: Project #1 has been deleted., forbidden", NO_PROJECT),
    (
        BUCKET,
        "googleapi: Error 403: The project to be billed is associated with an absent billing account., "
        "accountDisabled",
        "no billing account that is open",
    ),
    # Numbers that Google limits.
    (
        ACCOUNT,
        "Error 429: Maximum number of service accounts on project reached., rateLimitExceeded",
        NO_ACCOUNTS,
    ),
    (
        MEMBER,
        "googleapi: Error 400: The number of members in the policy (1,501) is larger than the maximum "
        "allowed size 1,500., badRequest",
        "begin with `deleted:`",
    ),
    (
        SERVICE,
        "Error code 8, message: Quota violated:\nNvidiaL4GpuAllocPerProjectRegion requested: 1 allowed: 0",
        "a quota is used up, NvidiaL4GpuAllocPerProjectRegion",
    ),
    (
        SERVICE,
        "googleapi: Error 400: spec.template.spec.node_selector: You do not have quota for using GPUs "
        "without zonal redundancy.",
        "a quota is used up, GPUs without zonal redundancy",
    ),
    (
        BUILD,
        "step 1: toomanyrequests: You have reached your unauthenticated pull rate limit.",
        DOCKER_HUB,
    ),
    # Values.
    (
        POOL,
        "googleapi: Error 400: pd-balanced disk type cannot be used by a4-highgpu-8g machine type.",
        NO_DISK,
    ),
    (POOL, "googleapi: Error 400: [pd-balanced] features are not compatible for creating instance.", NO_DISK),
    (
        POOL,
        "googleapi: Error 400: TPU topology 3x3 is not supported for machine type ct6e-standard-4t.",
        "no slice has this form",
    ),
    (
        CLUSTER,
        "googleapi: Error 400: Autopilot clusters must be regional clusters., badRequest",
        NO_VALUE,
    ),
    (SERVICE, "Error code 3, message: Total cpu < 4 is not supported with this", NO_VALUE),
    # Members and accounts.
    (MEMBER, "googleapi: Error 400: Principal user:who@example.com does not exist., badRequest", NO_MEMBER),
    (MEMBER, "googleapi: Error 400: User who@example.com does not exist., badRequest", NO_MEMBER),
    (BINDING, "googleapi: Error 400: Invalid member: group:none, badRequest", NO_MEMBER),
    (
        CLUSTER,
        'googleapi: Error 400: Service account "x@p.iam.gserviceaccount.com" is disabled.',
        "switched this service account off",
    ),
    # Nodes and containers.
    (
        POOL,
        "Error waiting for creating GKE NodePool: All cluster resources were brought up, but: only 0 nodes "
        "out of 3 have registered; this is likely due to Nodes failing to start correctly; check VM Serial "
        "logs for errors",
        "did not reach the cluster",
    ),
    (
        SERVICE,
        "Error code 9, message: Revision 's' is not ready. Memory limit of 32768 MiB exceeded with 32900 MiB "
        "used.",
        "more memory than its limit",
    ),
    (
        SERVICE,
        "Error code 9, message: Default STARTUP TCP probe failed 1 time consecutively for container vllm on "
        "port 8000. The instance was not started. Connection failed with status DEADLINE_EXCEEDED.",
        "the server did not come up",
    ),
    (
        SERVICE,
        "Error code 9, message: Container manifest type 'application/vnd.oci.image.index.v1+json' must "
        "support amd64/linux.",
        "Cloud Run cannot take the image",
    ),
    (
        DEPLOYMENT,
        "[Pod vllm-1]: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "its pods are not ready",
    ),
    # Objects that are not there, or still are.
    (
        BUCKET,
        "googleapi: Error 409: The bucket you tried to delete is not empty., conflict",
        "the bucket holds objects",
    ),
    (POOL, "googleapi: Error 404: Not found: projects/p/locations/r/clusters/c., notFound", GONE),
    (SECRET, "googleapi: Error 404: Secret [projects/1/secrets/x] not found.", GONE),
    (
        POLICY,
        'googleapi: Error 404: Cannot find metric(s) that match type = "logging.googleapis.com/user/x". If a '
        "metric was created recently, it could take up to 10 minutes to become available.",
        "until something has written it",
    ),
    (
        CHANNEL,
        "googleapi: Error 400: Cannot delete notification channel 1 as it is referenced by policies [2]",
        "an alert that the stack did not make",
    ),
    (
        BINDING,
        "googleapi: Error 412: At least one of the pre-conditions you specified did not hold.",
        "it passes: `pulumi up`",
    ),
    (NAMESPACE, 'object is being deleted: namespaces "llm" already exists', STILL_GOING),
    (JOB, "unable to create new content in namespace llm because it is being terminated", STILL_GOING),
    # Kubernetes' objects.
    (JOB, 'Job.batch "x" is invalid: spec.template: Invalid value: {}: field is immutable', FIXED),
    (DEPLOYMENT, "StatefulSet is invalid: spec: Forbidden: updates to statefulset spec for fields", FIXED),
    (CLASS, 'ComputeClass.cloud.google.com "c" is invalid: spec.priorities[0].x: Invalid value', NO_OBJECT),
    (CLASS, 'strict decoding error: unknown field "spec.x"', NO_OBJECT),
    (CLASS, "the server could not find the requested resource", "is not installed yet"),
    (
        CLASS,
        "failed to determine if the following GVK is namespaced: cloud.google.com/v1, Kind=ComputeClass",
        "in the hour",
    ),
    (NAMESPACE, "dial tcp 10.0.0.2:443: connect: no route to host", "API server cannot be reached"),
    (
        RELEASE,
        'failed to do request: Head "https://registry.k8s.io/v2/": dial tcp: lookup registry.k8s.io: no such '
        "host",
        "comes from registry.k8s.io",
    ),
)
