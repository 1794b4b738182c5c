"""Errors of Google, Kubernetes and their providers about logins, networks, projects, quotas and resources.

The first row that matches is the answer. So a general sentence stands below the special ones.
"""

import re
from typing import Final

from cloud.organisation import CONSTRAINTS
from components.base.remedy import DESTROY_ALL, GKE_GROUPS, GOOGLE, KEEP_BUCKET, KUBERNETES, Remedy

_LOG_IN: Final = (
    "your login at Google is missing or has expired: `gcloud auth application-default login`, then `{again}`"
)
_CLUSTER_UNREACHABLE: Final = (
    "the cluster's API server cannot be reached from here: check network, proxy and login (`kubectl get "
    "namespaces` after the stack's command `connect`), then `{again}`"
)
_EXISTS: Final = "it exists and is not in the stack's state: delete it, or `pulumi import` it, then `{again}`"
_LOOK_FIRST: Final = "it may be done all the same: `{again} --refresh` looks first and goes on where it was"
_PASSES: Final = "it passes: `{again}` goes on where it was"
_ASK_PREFLIGHT: Final = (
    "the account that runs `{again}` may not do this: {preflight} lists what is missing, then `{again}`"
)

KNOWN_ERRORS: Final = (
    # The login.
    Remedy(
        package=KUBERNETES,
        sentence=r"gke-gcloud-auth-plugin.* not found",
        action="kubectl's plugin for GKE is missing: `gcloud components install gke-gcloud-auth-plugin`, "
        "or `apt-get install google-cloud-cli-gke-gcloud-auth-plugin`, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"insufficient authentication scopes|ACCESS_TOKEN_SCOPE_INSUFFICIENT|insufficient scopes?\b",
        action="your login leaves this API out: `gcloud auth application-default login` gives one for all "
        "of them, and a VM needs the access scope cloud-platform. Then `{again}`",
    ),
    Remedy(
        sentence=r"serviceAccounts\.getAccessToken|(?i:unable to impersonate|impersonat\w+: .{0,80}40[13])",
        action="you may not act as the service account of your login: ask its owner for "
        "roles/iam.serviceAccountTokenCreator on it, then `{again}`",
    ),
    Remedy(
        sentence=r"invalid_rapt|invalid_grant|reauth related error|could not find default credentials"
        r"|no Application Default Credentials|[Tt]oken has been expired or revoked|Error 401"
        r"|gke-gcloud-auth-plugin failed with exit code|asked for the client to provide credentials"
        r"|^Unauthorized$|: Unauthorized$",
        action=_LOG_IN,
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"requires a quota project",
        action="your login names no project that calls count for: `gcloud auth application-default "
        "set-quota-project PROJECT`, then `{again}`",
    ),
    # The network.
    Remedy(
        package=KUBERNETES,
        sentence=r"x509: ",
        action="the API server shows a certificate that is not the cluster's: look for a proxy in between. "
        "If the cluster was made anew, `{again} --refresh` reads its new certificate",
    ),
    # Stands before "unreachable": here the API server answers, and a webhook that it calls does not.
    Remedy(
        package=KUBERNETES,
        sentence=r"failed calling webhook",
        action="an admission webhook does not answer: `kubectl get pods --all-namespaces` shows whether "
        "its pods run (Kueue's are in kueue-system), then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"an error on the server \(",
        action="the cluster's control plane fails or is being resized, which passes within minutes: `{again} "
        "--refresh` looks first what was done, and goes on",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"cluster is unreachable|no such host|connection refused|network is unreachable|no route "
        r"to host|i/o timeout",
        action=_CLUSTER_UNREACHABLE,
    ),
    Remedy(
        sentence=r"no such host|network is unreachable|no route to host|connection refused",
        action="Google's API cannot be reached from here: check network, name server and proxy, then "
        "`{again}`",
    ),
    Remedy(
        sentence=r"connection reset by peer|unexpected EOF|TLS handshake timeout|i/o timeout",
        action="the connection broke in between: `{again} --refresh` looks first what was done, and goes on",
    ),
    # Stands before "deadline exceeded", which is about an operation that goes on.
    Remedy(
        sentence=r"Client\.Timeout exceeded",
        action="no answer came in time, the network is slow or the API is busy: `{again} --refresh` looks "
        "first what was done, and goes on",
    ),
    # The project and its organisation. VPC Service Controls name an organization's policy too.
    # https://docs.cloud.google.com/vpc-service-controls/docs/troubleshooting
    Remedy(
        package=GOOGLE,
        sentence=r"vpcServiceControlsUniqueIdentifier|VPC Service Controls|SECURITY_POLICY_VIOLATED",
        action="a perimeter of VPC Service Controls refuses this call: its administrator finds the reason "
        "by the identifier in the message, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"do not belong to a permitted customer",
        action="the organisation gives roles to members of its own domains alone "
        "(iam.allowedPolicyMemberDomains): take the other member out of `invokers` or ask for an "
        "exception, then `{again}`",
    ),
    *(
        Remedy(
            sentence=rf"constraints/{re.escape(constraint.name)}\b",
            action=f"a policy of the organisation forbids {constraint.forbids}: {constraint.cure}, then "
            "`{again}`",
        )
        for constraint in CONSTRAINTS.values()
        if constraint.cure
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"[Cc]onstraint '?\"?(constraints/|[a-z]+\.)|violates constraint|orgpolicy"
        r"|[Oo]rgani[sz]ation(al)?('s)? [Pp]olicy|[Oo]rg [Pp]olicy",
        action="a policy of the organisation forbids this: its name is in the message. Ask its "
        "administrator for an exception, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"[Bb]illing (is |must be |to be |has not been )?(disabled|enabled)|BILLING_DISABLED"
        r"|[Bb]illing account .{0,80}(disabled|closed|not found|not open)|(closed|absent) billing account"
        r"|UREQ_PROJECT_BILLING_NOT_(FOUND|OPEN)|delinquent state",
        action="the project has no billing account that is open: link one at "
        "https://console.cloud.google.com/billing/projects, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"CONSUMER_(INVALID|SUSPENDED)|(?i:(consumer|project) .{0,80}(has been suspended|has been "
        r"deleted|marked for deletion|pending deletion))|[Pp]roject \S+ (was |is )?not found|[Uu]nknown "
        r"project",
        action="the project of `gcp:project` does not exist, or somebody has suspended or deleted it: "
        "`gcloud projects describe PROJECT` says which. `pulumi config set gcp:project PROJECT` names "
        "another. Then `{again}`",
    ),
    # Rates and quotas. https://docs.cloud.google.com/docs/quotas/view-manage
    Remedy(
        sentence=r"toomanyrequests|pull rate limit",
        action="Docker Hub limits how often one address pulls: wait for some hours and `{again}`, or pull "
        "through a registry of your own, `pulumi config set registry own` (docs/in-a-company.md)",
    ),
    # Stand before the rates, because Google gives these numbers the reason rateLimitExceeded too.
    Remedy(
        package=GOOGLE,
        sentence=r"[Mm]aximum number of service accounts",
        action="the project has as many service accounts as it may: delete those that nobody uses (`gcloud "
        "iam service-accounts list`) or ask for more at https://console.cloud.google.com/iam-admin/quotas, "
        "then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"number of members in the policy|[Pp]olicy .{0,80}(too large|size limit)",
        action="the policy has as many members as Google allows: take out those that begin with `deleted:` "
        "(`gcloud projects get-iam-policy PROJECT` lists them), then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"rateLimitExceeded|RATE_LIMIT_EXCEEDED|[Rr]ate [Ll]imit|per minute|per \d+ seconds",
        action="Google limits how often an API is called; it passes within minutes: `{again}` goes on "
        "where it was",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"RESOURCE_POOL_EXHAUSTED|(?i:stockout)|GCE out of resources|no more capacity in the zone"
        r"|does not have enough resources available|currently unavailable in the .* zone",
        action="the zone has no such machines left{elsewhere}: wait and `{again}`, or choose another zone, "
        "region or `capacity.type`. `python -m operations capacity --stack {stack}` asks Google where there "
        "are some",
    ),
    # https://github.com/hashicorp/terraform-provider-google/issues/10823
    Remedy(
        package=GOOGLE,
        sentence=r"RUNNING_WITH_ERROR",
        action="the pool stands, but not all of its nodes, mostly because the zone has no such machines. GKE "
        "goes on trying, and `{again}` goes on meanwhile",
    ),
    # Cloud Run writes this. The number is 0 if not even one instance fits.
    Remedy(
        package=GOOGLE,
        sentence=r"Max instances must be set to \d+ or fewer",
        action="Cloud Run's quota in the region is smaller than `maxInstances` instances: lower that or, "
        "for 0, ask for more of what the message says is violated at "
        "https://console.cloud.google.com/iam-admin/quotas, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"[Qq]uota .{0,200}exceeded|quotaExceeded|[Qq]uota exceeded|QUOTA_EXCEEDED"
        r"|[Ii]nsufficient (regional|project) quota|[Qq]uota violated|[Vv]iolation of quota"
        r"|(do|does) not have (any |enough )?quota",
        action="a quota is used up, {quota}: ask for more at "
        "https://console.cloud.google.com/iam-admin/quotas, then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"exceeded quota:",
        action="a ResourceQuota of the namespace is used up: `kubectl describe resourcequota "
        "--all-namespaces` shows by what. Make room, then `{again}`",
    ),
    # The resource itself.
    Remedy(
        package=GOOGLE,
        sentence=r"[Yy]ou already own (this|it)|already own this bucket",
        action="this project has a bucket of that name, which the state does not know: set another "
        "`bucketName`, or `pulumi import` it, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"bucket name is not available|bucket namespace is shared",
        action="somebody else has a bucket of that name: set another `bucketName`, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"has not been used in project|API is not enabled|SERVICE_DISABLED|should enable service",
        action="its Google API was enabled a moment ago; it passes: `{again} --refresh` goes on where it was",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"[Ss]ervice account \S+ does not exist",
        action="IAM does not know the service account everywhere yet, or somebody has deleted it: `{again} "
        "--refresh` looks which, and goes on",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"Identity Pool does not exist",
        action="the project's first cluster brings the workload identity pool, and IAM does not know it "
        "everywhere yet: `{again}` goes on where it was",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r'Preview failed: resource "[^"]*" cannot be deleted|unable to replace resource "',
        action="nothing was changed, because the bucket holds what the runs have written. To end the stack, "
        f"`{KEEP_BUCKET}` keeps the bucket and `{DESTROY_ALL}` deletes it too. Do not unprotect it in the "
        "state: `pulumi destroy` then deletes everything else first and fails at the bucket. If `pulumi up` "
        "says this, a setting would replace the bucket: take the setting back",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"containing objects without force_destroy|bucket you tried to delete is not empty",
        action="the bucket holds objects: look whether somebody needs them. To delete them with it, "
        f"`{DESTROY_ALL}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"incompatible operation|[Oo]peration .{0,80}(is in progress|under way|is currently)"
        r"|currently (creating|deleting|undergoing|being)|resourceNotReady",
        action="another change of it is under way; it passes when that ends: `{again}` goes on where it was",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"resourceInUseByAnotherResource|is already being used by",
        action="something still uses it. Cloud Run gives addresses back one to two hours after their last "
        "user, a cluster its network endpoint groups within minutes: `{again}` later. `python -m "
        "operations leftovers --stack {stack}` lists what else there is",
    ),
    # The provider sends the version that it read last. Stands before "Error 409", which passes by itself.
    Remedy(
        package=GOOGLE,
        sentence=r"(?is)updating Dashboard .*(\betag\b|Error 4(09|12))",
        action="somebody has changed the dashboard since the last `up`: `{again} --refresh` reads it and "
        "writes the program's over it. To keep what they added, copy it to a dashboard of another name first",
    ),
    # Stands before "already exists": the object goes by itself.
    Remedy(
        package=KUBERNETES,
        sentence=r"is being terminated|object is being deleted",
        action="an object of that name is still being deleted: `{again}` goes on when it is gone. If it "
        "stays, `kubectl get namespaces` shows which namespace is Terminating, and `kubectl describe` why",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(delete|deleting) notification ?channel|notification channel .{0,200}(referenced"
        r"|in use|is used)",
        action="an alert that the stack did not make still sends to this channel: take the channel out of it "
        "at https://console.cloud.google.com/monitoring/alerting/policies, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"[Cc](annot|ould not) find (any )?metric|metric referenced by .{0,40} is unknown",
        action="Cloud Monitoring does not know the metric until something has written it, which takes up to "
        "ten minutes: `{again}` goes on where it was",
    ),
    Remedy(sentence=r"already exists|alreadyExists|ALREADY_EXISTS", action=_EXISTS),
    Remedy(
        package=KUBERNETES,
        sentence=r"violates PodSecurity",
        action="the namespace's Pod Security level refuses the pod: the message lists the fields. Change "
        "the manifest, then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"admission webhook .* denied the request",
        action="a rule of the cluster refuses the object: the message says which and why. Change the "
        "setting or the manifest, then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"Apply failed with \d+ conflicts?",
        action="another tool has written a field that the program states: the message names both. Let that "
        "tool leave the field alone, then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r'no matches for kind "AutoscalingMetric"',
        action="this version of GKE has no metrics of pods: `gcloud container clusters upgrade` to 1.35.1 or "
        "newer, or give the servers a number, `pulumi config set servingReplicas 1`, then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=rf'(no matches for kind "\w+" in version "|GVK is namespaced: )(?:{GKE_GROUPS})/',
        action="GKE has not installed this kind in the hour for which `up` waits: `kubectl get crds` lists "
        "the kinds that are there, and `{again}` waits for another hour",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"no matches for kind|could not find the requested resource|GVK is namespaced",
        action="what defines this kind of object is not installed yet: `{again}` goes on where it was",
    ),
    # Stand before "forbidden": the API server calls a field that stays as it is forbidden too.
    Remedy(
        package=KUBERNETES,
        sentence=r"field is immutable|may not be changed|updates to \w+ spec",
        action="this field of the object stays as it is for its life: `{again} --replace '**NAME'`, with the "
        "name that stands before this line, makes the object anew",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r" is invalid: |strict decoding error|unknown field|cannot be handled as a",
        action="the API server does not take the object, and the message names the field: if you changed a "
        "setting or a manifest, correct it there. If not, the cluster may have an older version of the kind: "
        "`kubectl explain KIND.FIELD` shows what it knows. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE, sentence=r"Error 403|PERMISSION_DENIED|[Pp]ermission .*denied", action=_ASK_PREFLIGHT
    ),
    Remedy(package=KUBERNETES, sentence=r"is forbidden|[Ff]orbidden", action=_ASK_PREFLIGHT),
    # Failures of Google and of the cluster.
    Remedy(
        sentence=r"[Tt]imeout while waiting|[Tt]imed out|deadline exceeded|DEADLINE_EXCEEDED|[Tt]imeout "
        r"waiting",
        action=_LOOK_FIRST,
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"Error 5\d\d|HTTP response code 5\d\d|backendError|[Ii]nternal error",
        action="Google's side failed; it passes: `{again} --refresh` looks first what was done, and goes on",
    ),
    Remedy(package=GOOGLE, sentence=r"Error (409|412|429)|[Cc]onflict for resource|ABORTED", action=_PASSES),
    Remedy(
        package=GOOGLE,
        sentence=r"Error 404|NOT_FOUND|Error code 5,|was not found|entity was not found",
        action="it is not there: somebody has deleted it, or a setting names what does not exist. `{again} "
        "--refresh` looks what there is and goes on. If it ends there again, correct the setting that has "
        "the name in the message",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"Error 400|INVALID_ARGUMENT|Error code 3,",
        action="Google does not take a value, and the message names its field: correct the setting that has "
        "the value, then `{again}`. If no setting has it, the program is at fault: please report it",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"the server is currently unable|etcdserver: |[Tt]oo many requests|the object has been "
        r"modified",
        action=_PASSES,
    ),
)
