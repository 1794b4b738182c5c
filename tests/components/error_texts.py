"""Errors of Google, Kubernetes and their providers in their own words."""

from typing import Final

from tests.components.error_kinds import (
    BUCKET,
    BUILD,
    CLUSTER,
    JOB,
    MEMBER,
    NAMESPACE,
    NETWORK,
    POOL,
    QUEUE,
    SERVICE,
)

UNREACHABLE = (
    "configured Kubernetes cluster is unreachable: unable to load schema information from the API server: "
    'Get "https://10.0.0.2/openapi/v2?timeout=32s": '
)

# Type of the resource, what its provider says, and words that only the right remedy has.
TEXTS: Final = (
    # The trial.
    (
        JOB,
        "Job trial-0c51b8e2 failed: Container trial for pod training/trial-x failed with exit code 2 "
        "matching FailJob rule at index 2; pod trial-x: [Error] error: model m: a run would fail when it has "
        "to train a step: connection refused; look at training.trl",
        "trains all the same",
    ),
    (
        JOB,
        "Job trial-0c51b8e2 failed: Job has reached the specified backoff limit; pod trial-x: [Error] error: "
        "the Hub answers no request: no such host",
        "leaves the trial out",
    ),
    # The login.
    (
        NETWORK,
        'Post "https://compute.googleapis.com/compute/v1/projects/p/global/networks?alt=json": oauth2: '
        '"invalid_grant" "reauth related error (invalid_rapt)" '
        '"https://support.google.com/a/answer/9368756"',
        "login at Google",
    ),
    (
        NETWORK,
        "google: could not find default credentials. See https://cloud.google.com/docs",
        "login at Google",
    ),
    (
        MEMBER,
        "googleapi: Error 401: Request had invalid authentication credentials., authError",
        "login at Google",
    ),
    (
        MEMBER,
        "googleapi: Error 403: Your application is authenticating by using local Application Default "
        "Credentials. The cloudresourcemanager.googleapis.com API requires a quota project, which is not "
        "set by default., forbidden",
        "set-quota-project",
    ),
    # The network between here and there.
    (
        NETWORK,
        'Get "https://compute.googleapis.com/x": dial tcp: lookup compute.googleapis.com: no such host',
        "Google's API cannot be reached",
    ),
    (
        NETWORK,
        'Get "https://compute.googleapis.com/x?timeout=9s": read tcp 10.0.0.1:1->1.2.3.4:443: read: '
        "connection "
        "reset by peer",
        "the connection broke",
    ),
    (
        NAMESPACE,
        UNREACHABLE + "getting credentials: exec: executable gke-gcloud-auth-plugin not found",
        "gcloud components install gke-gcloud-auth-plugin",
    ),
    (
        NAMESPACE,
        UNREACHABLE + "getting credentials: exec: executable gke-gcloud-auth-plugin failed with exit code 1",
        "login at Google",
    ),
    (
        NAMESPACE,
        UNREACHABLE + "the server has asked for the client to provide credentials",
        "login at Google",
    ),
    (
        POOL,
        'googleapi: Error 403: Insufficient project quota to satisfy request: resource "CPUS_ALL_REGIONS"',
        "CPUS_ALL_REGIONS:",
    ),
    (
        NAMESPACE,
        UNREACHABLE + "dial tcp 10.0.0.2:443: connect: connection refused",
        "API server cannot be reached",
    ),
    (
        NAMESPACE,
        UNREACHABLE + "dial tcp: lookup gke-x.gke.goog: no such host",
        "API server cannot be reached",
    ),
    (NAMESPACE, UNREACHABLE + "dial tcp 10.0.0.2:443: i/o timeout", "API server cannot be reached"),
    (
        NAMESPACE,
        UNREACHABLE + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "certificate that is not the cluster's",
    ),
    # The organisation and its project.
    (
        BUCKET,
        "googleapi: Error 403: Request is prohibited by organization's policy. "
        "vpcServiceControlsUniqueIdentifier: 1a2b3c, forbidden",
        "VPC Service Controls",
    ),
    (
        BUCKET,
        "googleapi: Error 412: 'us-central1' violates constraint 'constraints/gcp.resourceLocations', "
        "conditionNotMet",
        "policy of the organisation",
    ),
    (
        SERVICE,
        "Error code 9, message: Operation denied by org policy on resource 'projects/p': "
        '["constraints/run.managed.requireInvokerIam"]',
        "policy of the organisation",
    ),
    (
        NETWORK,
        "googleapi: Error 412: Constraint constraints/compute.restrictCloudNATUsage violated for "
        "projects/p., conditionNotMet",
        "policy of the organisation",
    ),
    (
        SERVICE,
        "googleapi: Error 400: One or more users named in the policy do not belong to a permitted "
        "customer., failedPrecondition",
        "members of its own domains",
    ),
    (
        NETWORK,
        "googleapi: Error 403: This API method requires billing to be enabled. Please enable billing on "
        "project #123 by visiting https://console.developers.google.com/billing/enable?project=123, then "
        "retry., forbidden",
        "no billing account that is open",
    ),
    (
        BUCKET,
        "googleapi: Error 403: The billing account for the owning project is disabled in state absent, "
        "accountDisabled",
        "no billing account that is open",
    ),
    (
        "gcp:projects/service:Service",
        "googleapi: Error 400: Billing account for project '123' is not found. Billing must be enabled for "
        "activation of service(s) 'compute.googleapis.com' to proceed., failedPrecondition, "
        "UREQ_PROJECT_BILLING_NOT_FOUND",
        "no billing account that is open",
    ),
    # How often.
    (
        MEMBER,
        "googleapi: Error 429: Quota exceeded for quota metric 'Read requests' and limit 'Read requests "
        "per minute' of service 'cloudresourcemanager.googleapis.com' for consumer 'project_number:123'., "
        "rateLimitExceeded",
        "how often an API is called",
    ),
    (
        NETWORK,
        "googleapi: Error 403: Quota exceeded for quota group 'default' and limit 'Queries per 100 "
        "seconds' of service 'compute.googleapis.com' for consumer 'project_number:123'., "
        "rateLimitExceeded",
        "how often an API is called",
    ),
    # How much.
    (
        NETWORK,
        "googleapi: Error 403: Quota 'NETWORKS' exceeded.  Limit: 5.0 globally., quotaExceeded",
        "NETWORKS:",
    ),
    (
        POOL,
        "googleapi: Error 403: Insufficient regional quota to satisfy request: resource "
        '"NVIDIA_B200_GPUS": '
        "request requires '16.0' and is short '16.0'. project has a quota of '0.0' with '0.0' available., "
        "forbidden",
        "NVIDIA_B200_GPUS:",
    ),
    (
        SERVICE,
        "Error code 8, message: Quota exceeded for total allowable count of GPUs per project per region.",
        "total allowable count of GPUs:",
    ),
    (
        POOL,
        "Error waiting for creating GKE NodePool: error creating NodePool: Google Compute Engine: "
        "ZONE_RESOURCE_POOL_EXHAUSTED: Instance 'gke-x' creation failed: The zone 'us-east5-b' does not "
        "have enough resources available to fulfill the request.",
        "no such machines left",
    ),
    (
        POOL,
        "Error waiting for creating GKE NodePool: Google Compute Engine: Not all instances running in IGM "
        "after 1m6.2s. Expected 1, running 0, transitioning 1. Current errors: [GCE_STOCKOUT]: Instance 'a' "
        "creation failed",
        "no such machines left",
    ),
    (
        POOL,
        "Node scale up in zones us-east5-b associated with this pod failed: GCE out of resources. Pod is at "
        "risk of not being scheduled.",
        "no such machines left",
    ),
    (
        POOL,
        'Error code 8, message: There is no more capacity in the zone "us-east5-b"; you can try in another '
        "zone where Cloud TPU Nodes are offered [EID: 0x1]",
        "no such machines left",
    ),
    (POOL, "(state:STOCKOUT, sub-state:STOCKOUT, resource type:compute)", "no such machines left"),
    (POOL, 'NodePool x was created in the error state "RUNNING_WITH_ERROR"', "not all of its nodes"),
    (
        SERVICE,
        "Error code 9, message: template.scaling.max_instance_count: Max instances must be set to 0 or "
        "fewer to set the requested total CPU.\nConsider requesting an increase in quota for this region if "
        "you are seeing sustained usage near this limit, see https://cloud.google.com/run/quotas.\n\nQuota "
        "violated:\nCpuAllocPerProjectRegion requested: 60000 allowed: 20000",
        "smaller than `maxInstances` instances",
    ),
    (
        JOB,
        'pods "x-1" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: 8, '
        "limited: 8",
        "ResourceQuota",
    ),
    # Names.
    (
        BUCKET,
        "googleapi: Error 409: Your previous request to create the named bucket succeeded and you already "
        "own it., conflict",
        "this project has a bucket of that name",
    ),
    (
        BUCKET,
        "googleapi: Error 409: The requested bucket name is not available. The bucket namespace is shared "
        "by all users of the system. Please select a different name and try again., conflict",
        "somebody else has a bucket",
    ),
    (
        CLUSTER,
        "googleapi: Error 409: Already exists: projects/p/locations/r/clusters/c., alreadyExists",
        "not in the stack's state",
    ),
    (JOB, 'jobs.batch "x" already exists', "not in the stack's state"),
    # Rights.
    (
        NETWORK,
        "googleapi: Error 403: Required 'compute.networks.create' permission for "
        "'projects/p/global/networks/n', forbidden",
        "may not do this",
    ),
    (
        NAMESPACE,
        'namespaces is forbidden: User "a@b.c" cannot create resource "namespaces" in API group "" at the '
        "cluster "
        "scope",
        "may not do this",
    ),
    (
        JOB,
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        "Pod Security level",
    ),
    (
        QUEUE,
        'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups: Invalid value',
        "a rule of the cluster",
    ),
    (
        QUEUE,
        'Internal error occurred: failed calling webhook "mclusterqueue.kb.io": failed to call webhook: '
        'Post "https://kueue-webhook-service.kueue-system.svc:443/mutate?timeout=10s": connect: connection '
        "refused",
        "admission webhook does not answer",
    ),
    (
        "gcp:storage/bucket:Bucket",
        'Preview failed: resource "urn:pulumi:s::p::gcp:storage/bucket:Bucket::b" cannot be deleted\n'
        "because it is protected. To unprotect the resource, either remove the `protect` flag",
        "`pulumi destroy --exclude-protected` keeps the bucket",
    ),
    (
        "gcp:storage/bucket:Bucket",
        'unable to replace resource "urn:pulumi:s::p::gcp:storage/bucket:Bucket::b"\nas it is currently '
        "marked for protection. To unprotect the resource, remove the `protect` flag",
        "`pulumi destroy --exclude-protected` keeps the bucket",
    ),
    (
        "gcp:storage/bucket:Bucket",
        "Error trying to delete bucket a-bucket containing objects without force_destroy set to true",
        "the bucket holds objects",
    ),
    (
        QUEUE,
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using '
        "kueue.x-k8s.io/v1beta2: .spec.resourceGroups",
        "another tool has written a field",
    ),
    (
        "kubernetes:autoscaling.gke.io/v1beta1:AutoscalingMetric",
        'no matches for kind "AutoscalingMetric" in version "autoscaling.gke.io/v1beta1"',
        "servingReplicas 1",
    ),
    (
        "kubernetes:cloud.google.com/v1:ComputeClass",
        'no matches for kind "ComputeClass" in version "cloud.google.com/v1"',
        "in the hour",
    ),
    # What passes.
    (
        MEMBER,
        "Error applying IAM policy for project p: Error setting IAM policy: googleapi: Error 400: Service "
        "account nodes-1@p.iam.gserviceaccount.com does not exist., badRequest",
        "IAM does not know the service account",
    ),
    (
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "googleapi: Error 400: Identity Pool does not exist (p.svc.id.goog). Please check that you specified "
        "a valid resource name as returned in the `name` attribute in the configuration API., badRequest",
        "workload identity pool",
    ),
    (
        NETWORK,
        'Get "https://compute.googleapis.com/compute/beta/x?alt=json": net/http: request canceled while '
        "waiting for connection (Client.Timeout exceeded while awaiting headers)",
        "no answer came in time",
    ),
    (
        NETWORK,
        'Get "https://compute.googleapis.com/x": context deadline exceeded (Client.Timeout exceeded while '
        "awaiting headers)",
        "no answer came in time",
    ),
    (
        NAMESPACE,
        'an error on the server ("Internal Server Error") has prevented the request from succeeding (get '
        "namespaces)",
        "control plane fails or is being resized",
    ),
    (
        BUCKET,
        "googleapi: Error 403: Cloud Storage JSON API has not been used in project 123 before or it is "
        "disabled. Enable it by visiting https://console.developers.google.com/apis/api/x?project=123 then "
        "retry.",
        "enabled a moment ago",
    ),
    (
        POOL,
        "googleapi: Error 400: Cluster is running incompatible operation "
        "operation-1700000000000-1a2b3c4d., failedPrecondition",
        "another change of it",
    ),
    (
        SERVICE,
        "got HTTP response code 503 with body: <html><title>503 Service Temporarily "
        "Unavailable</title></html>",
        "Google's side failed",
    ),
    (NETWORK, "googleapi: Error 502: Bad Gateway, backendError", "Google's side failed"),
    (
        CLUSTER,
        "timeout while waiting for state to become 'DONE' (last state: 'RUNNING', timeout: 40m0s)",
        "it may be done all the same",
    ),
    (
        MEMBER,
        "googleapi: Error 409: There were concurrent policy changes. Please retry the whole "
        "read-modify-write with exponential backoff., aborted",
        "it passes: `pulumi up`",
    ),
    (
        NETWORK,
        "googleapi: Error 400: The network resource 'projects/p/global/networks/n' is already being used "
        "by 'projects/p/regions/r/addresses/serverless-ipv4-1', resourceInUseByAnotherResource",
        "something still uses it",
    ),
    (BUILD, "403 PERMISSION_DENIED: The caller does not have permission", "may not do this"),
)
