"""Errors about what a setting names: a recipe, a key, addresses, a host of a Shared VPC, a place, an image.

They stand before the table of known errors, because their sentences have words of it, such as "Error 403".
"""

from typing import Final

from components.base.remedy import GOOGLE, KUBERNETES, Remedy

_TRIAL: Final = (
    # The trial of a recipe. It stands first, because the end of its log, with any words, is in the message.
    Remedy(
        package=KUBERNETES,
        sentence=r"Job trial-\w+ failed: .* exit code 2 matching FailJob",
        action="the run would fail, and the last line of the message says why: change what it names, then "
        "`{again}`. `pulumi config set trial false` trains all the same",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"Job trial-\w+ failed",
        action="the recipe could not be tried, which says nothing of the run: `{again} --replace "
        "'**-trial-job'` tries it again, and `pulumi config set trial false` leaves the trial out",
    ),
)

# https://docs.cloud.google.com/storage/docs/encryption/using-customer-managed-keys and the pages of the other
# APIs: the account that encrypts is Google's own, so a role of the account that runs `up` does not help.
_KEYS: Final = (
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(key ?version|cryptoKey).{0,300}(is not enabled|is disabled|is destroyed|(is"
        r"|state:?) (DISABLED|DESTROY))|KEY_(DISABLED|DESTROYED)|key_permanently_inaccessible",
        action="the version of `kmsKey` that encrypts is off: ask the key's owner to enable it (`gcloud "
        "kms keys versions enable`), or to make another one primary, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(kms|crypto|\bcmek\b|encryption).{0,200}(same (location|region)|location "
        r".{0,60}(must|does not|do not|doesn't) (match|be the same)|(not available|not usable|cannot be "
        r"used) in (the )?(location|region))|not in the same location as the (bucket|key)",
        action="a key encrypts in its own location alone: set a `kmsKey` whose location is `gcp:region`, "
        "then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(cryptoKey|key ?ring|kms key).{0,200}(not found|does not exist)(?! in project \d+ "
        r"before)",
        action="there is no such key: `gcloud kms keys list --keyring RING --location REGION --project "
        "OWNER` lists what there is. Set `kmsKey`, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)cloud kms key|cryptoKeyEncrypterDecrypter|cryptoKeyVersions\.useTo|cryptoKeys/\S+ "
        r"is not accessible|(permission|access|denied|authori).{0,200}cryptoKeys/"
        r"|cryptoKeys/.{0,200}(denied|permission)",
        action="one of Google's own accounts may not use `kmsKey`, and a role of yours does not help: "
        "{preflight} prints the command for each account, for the key's owner. Then `{again}`",
    ),
)

# Shared VPC. https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc
_HOSTS: Final = (
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)is not a (valid )?(shared ?vpc|xpn) host|not (attached|associated) .{0,80}(host"
        r"|shared ?vpc)|(service|consumer) project .{0,80}not .{0,20}(attached|associated)",
        action="the project of `subnet` shares no network with this one: check the project in `subnet`, or "
        "ask an administrator of the host project for `gcloud compute shared-vpc enable HOST` and `gcloud "
        "compute shared-vpc associated-projects add PROJECT --host-project HOST`. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)hostServiceAgentUser|compute\.subnetworks\.use\b|compute\.networks\.use\b"
        r"|compute\.subnetworks\.get\b|service agent .{0,200}(subnet|vpc|network)|(subnet|vpc "
        r"network).{0,200}service agent",
        action="what uses `subnet` needs roles/compute.networkUser in its project, and these are Google's "
        "own accounts, beside whom the message names: {preflight} prints each command for its "
        "administrator. Then `{again}`",
    ),
)

_ADDRESSES: Final = (
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)IP_SPACE_EXHAUSTED|IP space of .{0,200} is exhausted|(not have|no|insufficient"
        r"|enough)( available| free)?( private)? IP (space|addresses|ranges)|free IP addresses in subnet",
        action="the subnet has no addresses left: run fewer nodes or servers, or make room. In the stack's "
        "own network give larger ranges in `ownNetwork`, which replaces the cluster. With `subnet` its "
        "owner enlarges it (`gcloud compute networks subnets expand-ip-range`). Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(secondary range|pods range|services range|secondary_range)\b.{0,200}(not found"
        r"|does not exist|already (in use|used)|is used by)",
        action="`podsRange` and `servicesRange` must name two secondary ranges of `subnet` that no other "
        "cluster uses for services: {preflight} lists the ranges. Set them, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)conflicts with (existing subnet|peer|a? ?(peer )?network|.{0,40}(range|route"
        r"|subnetwork))|overlap.{0,80}(range|cidr|subnet|network|route)|(range|cidr|subnet).{0,120}overlap",
        action="these addresses are in use there or across a peering: set another range for "
        "`ownNetwork.machines`, `ownNetwork.pods` or `ownNetwork.services`, whichever the message shows, "
        "then `{again}`",
    ),
)

_PLACES: Final = (
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)reservation.{0,200}(not found|does not exist|do not exist|could not be found|not "
        r"usable|not shared|no available|insufficient|is full|mismatch|not (a )?match)"
        r"|(no|incompatible).{0,40} reservation|reservation ?affinity",
        action="`capacity.reservation` cannot be used: it must be in the stack's zone, shared with this "
        "project and have free machines of that type. {preflight} says which. Then `{again}`",
    ),
    # Stand before the places, because these words are about the machine itself.
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(tpu|accelerator) ?topology.{0,160}(not supported|unsupported|invalid|not valid"
        r"|incompatible)|(unsupported|invalid) .{0,40}topology",
        action="no slice has this form: set one of the values of `topology` in docs/tpu.md, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)disk ?type.{0,120}(cannot|not|unsupported)|features are not compatible"
        r"|unsupported disk",
        action="the machine does not take such a disk, which no setting names: please report it, because "
        "cloud/machines.py has the disk of each machine. Until then choose another machine or "
        "`capacity.type`, and `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)nodes out of \d+ have registered|nodes failing to start",
        action="the nodes started and did not reach the cluster. With `subnet` look for Private Google "
        "Access, a way to the internet and firewall rules that block it. With `accounts.nodes` the account "
        "needs roles/container.defaultNodeServiceAccount. A node's serial port says which. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(machine ?type|accelerator ?type|gpu|tpu).{0,160}(does not exist in zone|is not "
        r"(available|supported|offered) in|not found in zone|unsupported in)|does not support "
        r".{0,60}(machine|accelerator)",
        action="that place has no such machines: set another `gcp:region` (or `zones`, where the stack has "
        "it). `python -m operations preflight --stack {stack}` says where they are. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)locations/\S+'? ?\(or it may not exist\)|unknown (region|zone|location)|(region|zone"
        r"|location) '?\"?[\w-]+'?\"? (does not exist|is not found|was not found|is invalid)|invalid "
        r"(region|zone|location)\b|location constraint is not valid",
        action="there is no such place, or not for this project: set `gcp:region` to one of `gcloud "
        "compute regions list`, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(master|node|control plane|cluster) version .{0,120}(unsupported|not supported"
        r"|invalid|must|is not)|no valid versions with|unsupported .{0,20}version",
        action="GKE does not offer this version there any more: `gcloud container get-server-config "
        "--region REGION` lists the versions of each channel. The stacks take their channel's default, so "
        "look at who set a version by hand. `{again} --refresh` reads what the cluster has",
    ),
)

_ACCOUNTS: Final = (
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)does not have access to service account|serviceAccounts?\.actAs"
        r"|iam\.serviceAccountUser|permission to act as",
        action="who runs `{again}` may not hand out this service account: ask a project owner for "
        "roles/iam.serviceAccountUser on it (`gcloud iam service-accounts add-iam-policy-binding ACCOUNT "
        "--member user:YOU --role roles/iam.serviceAccountUser`). `bootstrap/` gives it. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)(principal|user|group|member|domain)s? (?!\S*gserviceaccount)\S+ (does not exist"
        r"|(is|was) not found|is invalid|is not valid)|invalid (member|principal)",
        action="a setting names a person, a group or a domain that Google does not know: correct the member "
        "of the message in `invokers` or `rbacGroup`, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)service account \S+ is disabled",
        action="somebody has switched this service account off: `gcloud iam service-accounts enable "
        "ACCOUNT`, or name another one in `accounts`. Then `{again}`",
    ),
    # An agent is an account of Google's that this project has, and no member that a setting names.
    Remedy(
        package=GOOGLE,
        sentence=r"(?s)(?=.*(permitted customer|permitted organi[sz]ation"
        r"|allowedPolicyMemberDomains)).*(@gcp-sa-[\w-]+\.iam|@[\w-]+-robot(-prod)?\.iam|@cloudservices\."
        r"|@[\w-]*\.?gserviceaccount\.com is not in permitted)",
        action="the organisation refuses Google's own service agents (iam.allowedPolicyMemberDomains): ask "
        "its administrator to allow them, for example with iam.managed.allowedPolicyMembers. No setting "
        "helps. Then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)must have permission to read the image"
        r"|artifactregistry\.repositories\.downloadArtifacts|(image|pkg\.dev)\S* .{0,120}(may not be read"
        r"|access denied)",
        action="Google's agent of Cloud Run, or the nodes' account, may not read the image: ask the "
        "repository's owner for roles/artifactregistry.reader for the account in the message, then "
        "`{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)permission denied on secret|secretmanager\.versions\.access",
        action="the account of the job or service may not read the secret yet, which passes within minutes "
        "if `up` gave the role a moment ago: `{again} --refresh`. With `accounts` ask for "
        "roles/secretmanager.secretAccessor on it",
    ),
)

_PROGRAMS: Final = (
    # The program's own words, where a message quotes them: assumption vllm-cuda-on-cloud-run.
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)unsupported toolchain|unsupported display driver|cuda\w* .{0,20}error 803|error 803:",
        action="Cloud Run's driver is older than the CUDA of the server's image: `pulumi config set "
        "servingImage IMAGE` with a release of vLLM for CUDA 12.8 or older, then `{again}` "
        "(docs/troubleshooting.md)",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)memory limit of .{0,40}exceeded|terminated on signal 9|out-of-memory",
        action="the container needs more memory than its limit in the message: serve a smaller model "
        "(`servingModel`), or train with smaller batches (`recipeSet`), then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)failed to start and listen on the port|startup (\w+ )?probe|STARTUP_PROBE"
        r"|HEALTH_CHECK_CONTAINER|container (failed|exited|called exit)",
        action="the server did not come up: its log says why (the address is in the message, or `gcloud "
        "run services logs read SERVICE --region REGION`). Mostly the model does not load, does not fit "
        "the accelerator, or `vllmArguments` are wrong. If the log has `unsupported toolchain` or `error "
        "803`, the image needs an older CUDA (docs/troubleshooting.md). Correct it, then `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)container import failed|must support amd64|fetch metadata from the registry",
        action="Cloud Run cannot take the image: it must be one for linux/amd64 whose registry answers. "
        "Check `imageUri` and `servingImage`. If they are right, the registry failed for a moment: `{again}`",
    ),
    Remedy(
        package=GOOGLE,
        sentence=r"(?i)image ['\"]?\S+['\"]? (was )?not found|manifest unknown|MANIFEST_UNKNOWN",
        action="there is no such image: check `imageUri` and `servingImage`, or remove them, so that the "
        "stack has images of its own. Then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"(?i)ImagePullBackOff|ErrImagePull|InvalidImageName",
        action="an image cannot be pulled: check `imageUri` and `servingImage`, and who may read them. "
        "`python -m operations status --stack {stack}` names the pod. Then `{again}`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"(?i)failed to (fully initialize|initialize completely|become (live|available))"
        r"|exceeded its progress deadline|minimum "
        r"number of (live )?pods|CrashLoopBackOff|timed out waiting to be ready|failed liveness|readiness "
        r"probe failed|nodes are available: |Unschedulable",
        action="its pods are not ready: `python -m operations status --stack {stack}` says of each pod "
        "why. If they wait for nodes, `{again}` goes on; if a program ends, change what its log names first",
    ),
    # An `up` that was killed left the release pending.
    # https://github.com/pulumi/pulumi-kubernetes/issues/2054
    Remedy(
        package=KUBERNETES,
        sentence=r"another operation \(install/upgrade/rollback\) is in progress|cannot re-use a name that "
        r"is still in use|has no deployed releases",
        action="an `up` that was cut off left Helm's record of the release behind: `kubectl --namespace "
        "kueue-system get secrets --selector owner=helm` lists it. Delete the newest, "
        "sh.helm.release.v1.NAME.vN, whose label status is pending, or `helm rollback` it. Then `{again} "
        "--refresh`",
    ),
    Remedy(
        package=KUBERNETES,
        sentence=r"(?i)failed to (fetch|download|pull) .{0,120}chart|chart .{0,200}(not found|no such file)"
        r"|lookup registry\.k8s\.io"
        r"|looks like .{0,200}is not a valid chart repository",
        action="Kueue's chart comes from registry.k8s.io, whatever `registry` is: check network and proxy "
        "of the machine that runs `{again}`, then repeat it",
    ),
)

SETTING_ERRORS: Final[tuple[Remedy, ...]] = (
    *_TRIAL,
    *_KEYS,
    *_HOSTS,
    *_ADDRESSES,
    *_PLACES,
    *_ACCOUNTS,
    *_PROGRAMS,
)
