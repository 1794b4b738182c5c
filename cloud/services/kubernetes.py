"""Kinds of Kubernetes objects, as far as Google and Pulumi treat them differently.

GKE takes the right to create objects from the project's permissions. A change of an immutable field replaces
an object. A change of a ConfigMap's or Secret's data does too, so that its users follow it to the new name
(pulumi-kubernetes, provider/pkg/provider/diff.go, `forceNewProperties`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cloud.inputs import at, objects
from cloud.machines import TPU_RESOURCE
from cloud.quantity import quantity
from cloud.record import Inputs, Minutes, Record, verbs
from cloud.services.container import ADMIN, API

# Kinds that live outside any namespace.
CLUSTER_SCOPED: Final = (
    *("AdmissionCheck", "ClusterQueue", "ClusterRole", "ClusterRoleBinding", "ComputeClass"),
    *("CustomResourceDefinition", "Namespace", "PersistentVolume", "PriorityClass"),
    *("ProvisioningRequestConfig", "ResourceFlavor", "StorageClass"),
    "WorkloadPriorityClass",
)
# The words of all commands of a Job's pods.
_COMMAND: Final = "spec.template.spec.containers[].command[]"
_WRITTEN: Final = Minutes(create=0.02, update=0.02, delete=0.02, assumption="minutes-call")


def is_awaited(inputs: Inputs) -> bool:
    """Whether Pulumi waits for the object's end.

    It waits for a Job unless an annotation says no, and for a custom object if an annotation says so.
    """
    annotations = next(objects(inputs, "metadata.annotations"), {})
    if inputs.get("kind") == "Job":
        return annotations.get("pulumi.com/skipAwait") != "true"
    return "pulumi.com/waitFor" in annotations


def chips_of(template: Mapping[str, Any]) -> int:
    """TPU chips that a pod of the template asks for."""
    limits = objects(template, "spec.containers[].resources.limits")
    return int(sum(quantity(limit.get(TPU_RESOURCE)) or 0 for limit in limits))


def _trains_on_tpu(inputs: Inputs) -> bool:
    templates = at(inputs, "spec.rayClusterSpec.workerGroupSpecs[].template")
    return is_awaited(inputs) and any(map(chips_of, templates))


def copies_weights(inputs: Inputs) -> bool:
    """Whether a Job copies a model of the Hub into the bucket."""
    return "copy" in at(inputs, _COMMAND)


def tries_recipe(inputs: Inputs) -> bool:
    """Whether a Job tries a recipe on a CPU."""
    return "trial" in at(inputs, _COMMAND)


def prepares(inputs: Inputs) -> bool:
    """Whether a Job trains nothing, and others wait for it."""
    return copies_weights(inputs) or tries_recipe(inputs)


def _kind(
    version: str,
    kind: str,
    permissions: str,
    replaced_by: str = "",
    minutes: tuple[Minutes, ...] = (),
    immutable: str = "",
) -> Record:
    """The record of a kind.

    Args:
        version: Group and version as in Pulumi's type token, such as `core/v1`.
        permissions: Its name in GKE's permissions.
        replaced_by: As of `Record`, besides what identifies an object.
        minutes: As of `Record`. Without an entry an object exists at once.
        immutable: As of `Record`. `forceNewProperties` does not have them.
    """
    return Record(
        type=f"kubernetes:{version}:{kind}",
        api=API,
        id="{name}",
        replaced_by=f"apiVersion kind metadata.name metadata.namespace {replaced_by}",
        minutes=(*minutes, _WRITTEN),
        immutable=immutable,
        permissions=verbs(f"container.{permissions}", "create", "delete", "get"),
        role=ADMIN,
    )


_CONFIG_MAP: Final = _kind("core/v1", "ConfigMap", "configMaps", "data binaryData immutable")
_SECRET: Final = replace(_kind("core/v1", "Secret", "secrets", "data stringData type immutable"), sealed=True)
NAMESPACE: Final = _kind("core/v1", "Namespace", "namespaces")
_POD_TEMPLATE: Final = _kind("core/v1", "PodTemplate", "podTemplates")
_SERVICE: Final = _kind("core/v1", "Service", "services", "spec.clusterIP")
_SERVICE_ACCOUNT: Final = _kind("core/v1", "ServiceAccount", "serviceAccounts")
_DEPLOYMENT: Final = _kind("apps/v1", "Deployment", "deployments", "spec.selector")
# If Pulumi waits for it, its minutes include the nodes and the training, as for RayJobs below.
_JOB: Final = _kind(
    "batch/v1",
    "Job",
    "jobs",
    "spec.template spec.completions spec.parallelism spec.selector",
    (
        Minutes(create=10, when=copies_weights, assumption="minutes-weights"),
        Minutes(create=5, when=tries_recipe, assumption="minutes-trial"),
        Minutes(
            create=15.57,
            when=is_awaited,
            source="first A4 worker ready 5 min 34 s, tutorial 000; training about 10 min, tutorial 003",
        ),
    ),
    immutable="spec.completionMode",
)
_NETWORK_POLICY: Final = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkPolicies")
_ROLE: Final = _kind("rbac.authorization.k8s.io/v1", "Role", "roles")
_ROLE_BINDING: Final = _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "roleBindings", "roleRef")
_CLUSTER_ROLE_BINDING: Final = _kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterRoleBindings", "roleRef"
)
_DISRUPTION_BUDGET: Final = _kind("policy/v1", "PodDisruptionBudget", "podDisruptionBudgets")
# Objects of kinds that Kubernetes does not bring, such as Ray's and Kueue's, unless they have a record.
CUSTOM: Final = _kind("*", "*", "thirdPartyObjects")
_LOCAL_QUEUE: Final = _kind(
    "kueue.x-k8s.io/v1beta2", "LocalQueue", "thirdPartyObjects", immutable="spec.clusterQueue"
)
_RAY_JOB: Final = _kind(
    "ray.io/v1",
    "RayJob",
    "thirdPartyObjects",
    minutes=(
        Minutes(
            create=12.83,
            when=_trains_on_tpu,
            source="Ray cluster on v6e-16 ready after 11 min, 100 steps of 1.1 s, both tutorial 001",
        ),
        Minutes(
            create=16.28,
            when=is_awaited,
            source="first A4 worker ready 5 min 34 s, training 10 min 43 s, both tutorial 000",
        ),
    ),
)
_OF_A_CHART: Final = (
    *("clusterRoleBindings", "customResourceDefinitions", "mutatingWebhookConfigurations", "roleBindings"),
    *("roles", "validatingWebhookConfigurations"),
)
# A chart brings definitions, webhooks and roles of its own, and waits for its pods.
RELEASE: Final = Record(
    type="kubernetes:helm.sh/v3:Release",
    api=API,
    id="{namespace}/{name}",
    replaced_by="name namespace",
    minutes=(Minutes(create=1, update=1, delete=0.3, assumption="minutes-kueue"),),
    # Helm keeps a release in a Secret.
    sealed=True,
    permissions=(
        *verbs("container.clusterRoles", "bind", "create", "escalate"),
        *(f"container.{kind}.create" for kind in _OF_A_CHART),
    ),
    role=ADMIN,
)
