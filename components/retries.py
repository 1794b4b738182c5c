"""What is not there yet a moment after it was made: the refusals that an `up` waits out."""

import asyncio
import os
import re
from collections.abc import Mapping
from copy import copy
from typing import Final

import pulumi
from pulumi.runtime import register_stack_transformation

from components.remedies import what_to_do

# Engines before 3.219 have no error hooks, those before May 2026 ask them about creations alone that half
# succeeded (https://github.com/pulumi/pulumi/pull/23347); this is the oldest that the project is tested with.
OLDEST_ENGINE: Final = "3.259.0"
_PAUSE_S: Final = 10.0
# A rehearsal has nothing to wait for.
_PAUSE_VARIABLE: Final = "REHEARSAL_PAUSE_S"

# What both providers say of a creation that got somewhere, which the engine would begin a second time
# (https://github.com/pulumi/pulumi/pull/24684). Read in `Create` of pulumi-terraform-bridge's
# pkg/tfbridge/provider.go and of pulumi-kubernetes' provider/pkg/provider/provider.go.
_MADE: Final = re.compile(r"creating urn:pulumi:|was successfully (created|updated)")

# How often a resource is tried again, ten seconds apart; Kubernetes' provider takes half a minute for a try.
_TRIES: Final[Mapping[str, int]] = {"gcp": 48, "kubernetes": 12}

# Refusals that pass by themselves (assumption not-there-yet) and come before anything was made: the package
# of the resources that meet them, what the message has in it, and what the person who waits is told.
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
    # Kueue says it is ready once its certificates are in place and its webhook listens, but the way from
    # the API server to it may need some seconds more. https://github.com/kubernetes-sigs/kueue/issues/13036
    ("kubernetes", "failed calling webhook", "Kueue's webhook does not answer yet"),
)


def wait_out_refusals() -> None:
    """Lets every resource that is declared from now on be tried again after a refusal that passes.

    Raises:
        pulumi.RunError: When the engine is too old to do that.
    """
    try:
        pulumi.require_pulumi_version(f">={OLDEST_ENGINE}")
    except Exception as error:
        raise pulumi.RunError(
            f"this program needs Pulumi {OLDEST_ENGINE} or newer ({error}); https://www.pulumi.com/docs/install/"
        ) from None
    hook = pulumi.ErrorHook("wait-out-refusals", is_tried_again)

    # The engine hands no hook on from a component to what is in it.
    def with_hook(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not isinstance(args.resource, pulumi.CustomResource):
            return None
        options = copy(args.opts)
        options.hooks = pulumi.ResourceHookBinding(on_error=[hook])
        return pulumi.ResourceTransformationResult(args.props, options)

    register_stack_transformation(with_hook)


async def is_tried_again(failed: pulumi.ErrorHookArgs) -> bool:
    """Whether a resource is tried once more, after a pause; the newest of its errors is the first."""
    told = why_it_passes(failed.type, failed.errors[0])
    tries = _TRIES.get(_package(failed.type), 0)
    if not told or len(failed.errors) > tries:
        if remedy := what_to_do(failed.type, failed.errors[0], failed.urn.split(":")[2]):
            pulumi.log.warn(f"{failed.name}: {remedy}")
        return False
    pause_s = float(os.environ.get(_PAUSE_VARIABLE, _PAUSE_S))
    # Not the error itself: it may quote what it is about.
    pulumi.log.info(
        f"{failed.name} waits: {told}; tried again in {pause_s:g} s, "
        f"{len(failed.errors)} of at most {tries} times"
    )
    await asyncio.sleep(pause_s)
    return True


def why_it_passes(kind: str, message: str) -> str:
    """What is told of a refusal that passes; nothing of another message.

    Args:
        kind: Type token of the resource.
    """
    if _MADE.search(message):
        return ""
    meant = (each for each in _REFUSALS if each[0] == _package(kind) and re.search(each[1], message))
    return next((told for _, _, told in meant), "")


def _package(kind: str) -> str:
    return kind.partition(":")[0]
