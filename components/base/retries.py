"""Temporary refusals: an `up` retries what another new resource makes possible a moment later."""

import asyncio
import os
import re
from collections.abc import Mapping
from copy import copy
from typing import Final

import pulumi
from pulumi.runtime import register_stack_transformation

from components.base.remedies import what_to_do

# The oldest engine that the project is tested with. Engines before 3.219 have no error hooks. Engines before
# May 2026 call them only for creations that half succeeded (https://github.com/pulumi/pulumi/pull/23347).
OLDEST_ENGINE: Final = "3.259.0"
_PAUSE_S: Final = 10.0
# A rehearsal has nothing to wait for.
_PAUSE_VARIABLE: Final = "REHEARSAL_PAUSE_S"

# Both providers write this after a creation that half succeeded. After a retry the resource would exist twice
# (https://github.com/pulumi/pulumi/pull/24684). Sources: `Create` in pkg/tfbridge/provider.go of
# pulumi-terraform-bridge and in provider/pkg/provider/provider.go of pulumi-kubernetes.
_HALF_CREATED: Final = re.compile(r"creating urn:pulumi:|was successfully (created|updated)")

# Retries of a resource, ten seconds apart. An attempt of Kubernetes' provider takes half a minute.
_RETRIES: Final[Mapping[str, int]] = {"gcp": 48, "kubernetes": 12}

# Refusals that pass by themselves (assumption not-there-yet) before anything exists. A row has the package of
# the resource, a pattern of the message, and the reason that the user reads.
_REFUSALS: Final = (
    # https://github.com/hashicorp/terraform-provider-google/issues/10510
    # https://github.com/jamesward/kubernetes-the-easy-way/pull/1
    (
        "gcp",
        r"has not been used in project .* or it is disabled|API is not enabled for this project"
        r"|should enable service:",
        "its Google API was enabled a moment ago",
    ),
    # https://docs.cloud.google.com/iam/docs/service-accounts-create says 60 seconds "or more".
    # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/2002
    # https://github.com/hashicorp/terraform-provider-google/issues/16350
    (
        "gcp",
        r"[Ss]ervice account \S+ does not exist"
        r"|iam\.service[aA]ccounts\.actAs' denied on service account \S+ \(or it may not exist\)",
        "a service account was made a moment ago, and IAM does not know it everywhere",
    ),
    # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916
    (
        "gcp",
        "Identity Pool does not exist",
        "the project's first cluster was made a moment ago, and with it the workload identity pool",
    ),
    (
        "kubernetes",
        r'no matches for kind "Ray\w+" in version "ray\.io/',
        "GKE's Ray add-on has not installed its definitions yet",
    ),
    (
        "kubernetes",
        r'no matches for kind "AutoscalingMetric" in version "autoscaling\.gke\.io/',
        "GKE has not installed the definition of metrics of pods yet",
    ),
    # assumption names-in-policies
    (
        "kubernetes",
        r'no matches for kind "FQDNNetworkPolicy" in version "networking\.gke\.io/',
        "GKE has not installed the definition of policies with names yet",
    ),
    # assumption pod-monitoring-kind
    (
        "kubernetes",
        r'no matches for kind "PodMonitoring" in version "monitoring\.googleapis\.com/',
        "GKE has not installed the definitions of Managed Prometheus yet",
    ),
    # Kueue is ready when it has its certificates and its webhook listens. The API server may need some
    # seconds more to reach it. https://github.com/kubernetes-sigs/kueue/issues/13036
    ("kubernetes", "failed calling webhook", "Kueue's webhook does not answer yet"),
)


def wait_out_refusals() -> None:
    """Lets the engine retry every resource that the program declares from now on.

    Raises:
        pulumi.RunError: The engine is too old.
    """
    try:
        pulumi.require_pulumi_version(f">={OLDEST_ENGINE}")
    except Exception as error:
        raise pulumi.RunError(
            f"this program needs Pulumi {OLDEST_ENGINE} or newer ({error}); https://www.pulumi.com/docs/install/"
        ) from None
    hook = pulumi.ErrorHook("wait-out-refusals", is_tried_again)

    # A component does not pass its hooks on to its children.
    def with_hook(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not isinstance(args.resource, pulumi.CustomResource):
            return None
        options = copy(args.opts)
        options.hooks = pulumi.ResourceHookBinding(on_error=[hook])
        return pulumi.ResourceTransformationResult(args.props, options)

    register_stack_transformation(with_hook)


async def is_tried_again(failed: pulumi.ErrorHookArgs) -> bool:
    """Waits, and returns whether the engine retries a resource. The first of its errors is the newest."""
    error, errors = failed.errors[0], len(failed.errors)
    reason = why_it_passes(failed.type, error)
    retries = _RETRIES.get(_package(failed.type), 0)
    if not reason or errors > retries:
        if remedy := what_to_do(failed.type, error, failed.urn.split(":")[2]):
            pulumi.log.warn(f"{failed.name}: {remedy}")
        return False
    pause_s = float(os.environ.get(_PAUSE_VARIABLE, _PAUSE_S))
    # The error itself may quote a secret.
    pulumi.log.info(
        f"{failed.name} waits: {reason}; tried again in {pause_s:g} s, {errors} of at most {retries} times"
    )
    await asyncio.sleep(pause_s)
    return True


def why_it_passes(kind: str, message: str) -> str:
    """Why a refusal passes by itself. Empty for every other message.

    Args:
        kind: Type token of the resource.
        message: The error of its provider.
    """
    if _HALF_CREATED.search(message):
        return ""
    for package, pattern, reason in _REFUSALS:
        if package == _package(kind) and re.search(pattern, message):
            return reason
    return ""


def _package(kind: str) -> str:
    return kind.partition(":")[0]
