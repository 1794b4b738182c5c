"""Temporary refusals: an `up` retries what another new resource makes possible a moment later."""

import asyncio
import os
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import pulumi
from pulumi.runtime import register_stack_transformation

from components.base.remedies import what_to_do
from components.base.remedy import GKE_GROUPS

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

# Retries of a resource, ten seconds apart: 8 minutes. An attempt of Kubernetes' provider takes half a minute.
_RETRIES: Final[Mapping[str, int]] = {"gcp": 48, "kubernetes": 12}
# The same for an hour.
_AN_HOUR: Final = 90
_KIND_IS_LATE: Final = "GKE has not installed the kind {kind} yet, which may take an hour on a new cluster"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A refusal that passes by itself before anything exists: assumption not-there-yet.

    Args:
        package: Package of the resource.
        sentence: Regular expression for the message.
        reason: What the user reads. `{kind}` is the group `kind` of the sentence.
        retries: Number of retries, as many as the package's if it is 0.
    """

    package: str
    sentence: str
    reason: str
    retries: int = 0


_REFUSALS: Final = (
    # https://github.com/hashicorp/terraform-provider-google/issues/10510
    # https://github.com/jamesward/kubernetes-the-easy-way/pull/1
    Refusal(
        package="gcp",
        sentence=r"has not been used in project .* or it is disabled|API is not enabled for this project"
        r"|should enable service:",
        reason="its Google API was enabled a moment ago",
    ),
    # https://docs.cloud.google.com/iam/docs/service-accounts-create says 60 seconds "or more".
    # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/2002
    # https://github.com/hashicorp/terraform-provider-google/issues/16350
    Refusal(
        package="gcp",
        sentence=r"[Ss]ervice account \S+ does not exist"
        r"|iam\.service[aA]ccounts\.actAs' denied on service account \S+ \(or it may not exist\)",
        reason="a service account was made a moment ago, and IAM does not know it everywhere",
    ),
    # https://github.com/terraform-google-modules/terraform-google-kubernetes-engine/issues/916
    Refusal(
        package="gcp",
        sentence="Identity Pool does not exist",
        reason="the project's first cluster was made a moment ago, and with it the workload identity pool",
    ),
    # https://github.com/google/skills, skills/cloud/gke-compute-classes/SKILL.md (2026-08-21).
    # PodMonitoring: assumption pod-monitoring-kind.
    Refusal(
        package="kubernetes",
        sentence=rf'no matches for kind "(?P<kind>\w+)" in version "(?:{GKE_GROUPS})/',
        reason=_KIND_IS_LATE,
        retries=_AN_HOUR,
    ),
    # Another text about the same. https://github.com/pulumi/pulumi-kubernetes/issues/2143
    Refusal(
        package="kubernetes",
        sentence=rf"GVK is namespaced: (?:{GKE_GROUPS})/\w+, Kind=(?P<kind>\w+)",
        reason=_KIND_IS_LATE,
        retries=_AN_HOUR,
    ),
    # The API server writes both while what has the name is on its way out.
    Refusal(
        package="kubernetes",
        sentence="is being terminated|object is being deleted",
        reason="an object of that name is still being deleted",
    ),
    # Kueue is ready when it has its certificates and its webhook listens. The API server may need some
    # seconds more to reach it. https://github.com/kubernetes-sigs/kueue/issues/13036
    Refusal(
        package="kubernetes",
        sentence="failed calling webhook",
        reason="Kueue's webhook does not answer yet",
    ),
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
    refusal = passing_refusal(failed.type, error)
    if refusal is None or errors > refusal.retries:
        if remedy := what_to_do(failed.type, error, failed.urn.split(":")[2]):
            pulumi.log.warn(f"{failed.name}: {remedy}")
        return False
    pause_s = float(os.environ.get(_PAUSE_VARIABLE, _PAUSE_S))
    # The error itself may quote a secret.
    pulumi.log.info(
        f"{failed.name} waits: {refusal.reason}; tried again in {pause_s:g} s, {errors} of at most "
        f"{refusal.retries} times"
    )
    await asyncio.sleep(pause_s)
    return True


def passing_refusal(kind: str, message: str) -> Refusal | None:
    """The refusal in a message that passes by itself, with its reason and its retries. None for others.

    Args:
        kind: Type token of the resource.
        message: The error of its provider.
    """
    if _HALF_CREATED.search(message):
        return None
    package = kind.partition(":")[0]
    for row in _REFUSALS:
        match = re.search(row.sentence, message) if row.package == package else None
        if match:
            reason = row.reason.format(**match.groupdict())
            return replace(row, reason=reason, retries=row.retries or _RETRIES[package])
    return None
