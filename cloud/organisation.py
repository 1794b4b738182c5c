"""Organisation policies that strict companies set, and which of the stacks' resources they refuse.

A policy enforces a constraint on a project. Google lists the constraints:
https://docs.cloud.google.com/organization-policy/reference/org-policy-constraints
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cloud.inputs import is_set, objects, texts
from cloud.record import Inputs
from cloud.services import (
    cloudbuild,
    cloudrun,
    compute,
    container,
    kms,
    secretmanager,
    serviceaccount,
    storage,
)

_WEEK_S: Final = 7 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A constraint, as strict companies set it.

    Args:
        name: Its name after `constraints/`.
        forbids: What it forbids, in words.
        remedy: The settings with which a stack complies. Empty if no stack needs one.
        request: What to ask its administrator for. Only where no setting helps.
        refuses: Whether it refuses a resource, by the resource's type token and inputs.
    """

    name: str
    forbids: str
    remedy: str = ""
    request: str = ""
    refuses: Callable[[str, Inputs], bool]

    @property
    def cure(self) -> str:
        """What a person does whose stack it refuses, in words. Empty if it refuses none."""
        if self.request:
            return f"ask its administrator for {self.request}"
        return f"set {self.remedy} (docs/in-a-company.md) or ask for an exception" if self.remedy else ""

    def message(self, project: str) -> str:
        """What Google answers."""
        return (
            f"googleapi: Error 412: Constraint constraints/{self.name} violated for projects/{project}., "
            "conditionNotMet"
        )


def _is_public_build(type_token: str, inputs: Inputs) -> bool:
    return type_token == cloudbuild.BUILD.type and not inputs.get("pool")


def _is_not_shielded(type_token: str, inputs: Inputs) -> bool:
    """Whether machines boot without checks. GKE itself shields the nodes of Autopilot clusters."""
    if type_token not in (container.CLUSTER.type, container.NODE_POOL.type) or inputs.get("enableAutopilot"):
        return False
    boot = "nodeConfig.shieldedInstanceConfig"
    checks = (f"{boot}.enableSecureBoot", f"{boot}.enableIntegrityMonitoring")
    return not all(is_set(inputs, check) for check in checks)


def _has_public_nodes(type_token: str, inputs: Inputs) -> bool:
    private = is_set(inputs, "privateClusterConfig.enablePrivateNodes")
    return type_token == container.CLUSTER.type and not private


def _is_everywhere(type_token: str, inputs: Inputs) -> bool:
    """Whether Google chooses where a secret is. Everything else of a stack is in its region."""
    return type_token == secretmanager.SECRET.type and not [*objects(inputs, "replication.userManaged")]


def _has_googles_key(type_token: str, inputs: Inputs) -> bool:
    return type_token in kms.AGENTS and "/cryptoKeys/" not in str(inputs)


def _is_open(type_token: str, inputs: Inputs) -> bool:
    return type_token == cloudrun.SERVICE.type and "INGRESS_TRAFFIC_ALL" in texts(inputs, "ingress")


def _passes_by_the_network(type_token: str, inputs: Inputs) -> bool:
    templates = {cloudrun.JOB.type: "template.template", cloudrun.SERVICE.type: "template"}
    egress = f"{templates.get(type_token)}.vpcAccess.egress"
    return type_token in templates and "ALL_TRAFFIC" not in texts(inputs, egress)


def _lacks(type_token: str, path: str) -> Callable[[str, Inputs], bool]:
    """A rule that refuses resources of a type without a value at the path."""
    return lambda of, inputs: of == type_token and not is_set(inputs, path)


def _has_addresses(type_token: str, inputs: Inputs) -> bool:
    has_ip = is_set(inputs, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled")
    return type_token == container.CLUSTER.type and has_ip


def _binds_everybody(type_token: str, inputs: Inputs) -> bool:
    everybody = ("enableInsecureBindingSystemAuthenticated", "enableInsecureBindingSystemUnauthenticated")
    stated = next(objects(inputs, "rbacBindingConfig"), {})
    return type_token == container.CLUSTER.type and any(stated.get(key) is not False for key in everybody)


def _runs_any_image(type_token: str, inputs: Inputs) -> bool:
    return type_token in (cloudrun.JOB.type, cloudrun.SERVICE.type) and not inputs.get("binaryAuthorization")


def _forgets_soon(type_token: str, inputs: Inputs) -> bool:
    if type_token != storage.BUCKET.type:
        return False
    policies: Iterator[Inputs] = objects(inputs, "softDeletePolicy")
    return any(policy.get("retentionDurationSeconds", _WEEK_S) < _WEEK_S for policy in policies)


CONSTRAINTS: Final = {
    constraint.name: constraint
    for constraint in (
        Constraint(
            name="cloudbuild.allowedWorkerPools",
            forbids="builds on Google's machines",
            remedy="`buildPool`, or `imageUri`",
            refuses=_is_public_build,
        ),
        Constraint(
            name="compute.requireShieldedVm",
            forbids="machines without secure boot and integrity monitoring",
            refuses=_is_not_shielded,
        ),
        Constraint(
            name="compute.requireVpcFlowLogs",
            forbids="subnets without flow logs",
            remedy="`subnet`",
            refuses=lambda type_token, inputs: (
                type_token == compute.SUBNETWORK.type and not inputs.get("logConfig")
            ),
        ),
        Constraint(
            name="compute.restrictCloudNATUsage",
            forbids="a NAT in the stack's own network",
            remedy="`subnet`",
            refuses=lambda type_token, _inputs: type_token == compute.NAT.type,
        ),
        Constraint(
            name="compute.vmExternalIpAccess",
            forbids="machines with a public address",
            refuses=_has_public_nodes,
        ),
        Constraint(
            name="container.managed.disableRBACSystemBindings",
            forbids="clusters in which a role can be for everybody",
            refuses=_binds_everybody,
        ),
        Constraint(
            name="container.managed.enableBinaryAuthorization",
            forbids="clusters that ask no policy for the images of their pods",
            remedy="`binaryAuthorization` `project`",
            refuses=_lacks(container.CLUSTER.type, "binaryAuthorization.evaluationMode"),
        ),
        Constraint(
            name="container.managed.enableControlPlaneDNSOnlyAccess",
            forbids="API servers with an IP address",
            refuses=_has_addresses,
        ),
        Constraint(
            name="container.managed.enableGoogleGroupsRBAC",
            forbids="clusters without a group of the organisation for their roles",
            remedy="`rbacGroup`",
            refuses=_lacks(container.CLUSTER.type, "authenticatorGroupsConfig.securityGroup"),
        ),
        Constraint(
            name="container.managed.enableSecretsEncryption",
            forbids="clusters whose objects no key of yours encrypts",
            remedy="`kmsKey`",
            refuses=_lacks(container.CLUSTER.type, "databaseEncryption.keyName"),
        ),
        Constraint(
            name="container.managed.enableSecurityBulletinNotifications",
            forbids="clusters that send no notice of security bulletins",
            remedy="`securityBulletins`",
            refuses=_lacks(container.CLUSTER.type, "notificationConfig.pubsub.topic"),
        ),
        Constraint(
            name="gcp.resourceLocations",
            forbids="resources outside the regions that it lists",
            refuses=_is_everywhere,
        ),
        Constraint(
            name="gcp.restrictNonCmekServices",
            forbids="resources that Google's own keys encrypt",
            remedy="`kmsKey`",
            refuses=_has_googles_key,
        ),
        Constraint(
            name="gcp.restrictServiceUsage",
            forbids="APIs that it does not list",
            request="the APIs of the stack, which docs/in-a-company.md lists",
            # A list for a project without stacks has neither of them.
            refuses=lambda type_token, _inputs: (
                type_token in (container.CLUSTER.type, cloudrun.JOB.type, cloudrun.SERVICE.type)
            ),
        ),
        Constraint(
            name="iam.disableServiceAccountCreation",
            forbids="new service accounts",
            remedy="`accounts`",
            refuses=lambda type_token, _inputs: type_token == serviceaccount.ACCOUNT.type,
        ),
        Constraint(
            name="iam.disableServiceAccountKeyCreation",
            forbids="keys of service accounts",
            refuses=lambda type_token, _inputs: type_token == "gcp:serviceaccount/key:Key",
        ),
        Constraint(
            name="iam.managed.disableServiceAccountCreation",
            forbids="new service accounts",
            remedy="`accounts`",
            refuses=lambda type_token, _inputs: type_token == serviceaccount.ACCOUNT.type,
        ),
        Constraint(
            name="run.allowedBinaryAuthorizationPolicies",
            forbids="Cloud Run jobs and services that ask no policy for their images",
            remedy="`binaryAuthorization` `project`",
            refuses=_runs_any_image,
        ),
        Constraint(
            name="run.allowedIngress",
            forbids="Cloud Run services that the internet can reach",
            remedy="`ingress` `internal`",
            refuses=_is_open,
        ),
        Constraint(
            name="run.allowedVPCEgress",
            forbids="Cloud Run traffic that does not pass the network",
            refuses=_passes_by_the_network,
        ),
        Constraint(
            name="storage.publicAccessPrevention",
            forbids="buckets that could be public",
            refuses=lambda type_token, inputs: (
                type_token == storage.BUCKET.type and inputs.get("publicAccessPrevention") != "enforced"
            ),
        ),
        Constraint(
            name="storage.softDeletePolicySeconds",
            forbids="buckets that keep deleted objects for less than 7 days",
            remedy="`imageUri`, and on `tpu-maxtext` `bucket` too",
            refuses=_forgets_soon,
        ),
        Constraint(
            name="storage.uniformBucketLevelAccess",
            forbids="buckets with access lists per object",
            refuses=lambda type_token, inputs: (
                type_token == storage.BUCKET.type and not inputs.get("uniformBucketLevelAccess")
            ),
        ),
    )
}
