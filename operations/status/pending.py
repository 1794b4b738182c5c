"""Why a workload waits in its queue: what passes by itself, and what never comes.

Kueue 0.19 writes these sentences: `Status` in pkg/scheduler/flavorassigner/flavorassigner.go.
"""

import re
from typing import Final

from operations.status import words
from operations.status.report import Why

WAITS: Final = "waits for quota in the queue"

_MORE_THAN_ALL: Final = re.compile(
    r"insufficient quota for (\S+) in flavor ([^\s,]+), previously considered podsets requests \((\S+)\) \+ "
    r"current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
# What another workload, a node or a moment changes. One flavor that may come free is enough.
_PASSES: Final = re.compile(
    r"insufficient unused quota for \S+ in flavor [^\s,]+, \S+ more needed|topology .*doesn't allow to fit"
    r"|waiting for .*PodsReady|pending the preemption|overlapping preemption|no longer fits"
)
# What stays as it is until somebody changes the workload or the queue, and what to say of it.
_NEVER: Final = (
    (r"flavor (\S+) doesn't match node affinity", "its nodes cannot be of capacity {0}: other labels"),
    (r"untolerated taint (.+?) in flavor (\S+)", "its pods do not tolerate {0} of capacity {1}"),
    (r"resource (\S+) unavailable in ClusterQueue", "the queue has no {0}"),
    (r"flavor (\S+) not found", "the queue names a capacity that is not there: {0}"),
)
_REJECTS: Final = re.compile(
    r"doesn't exist|inactive|ClusterQueue \S+ not found|didn't satisfy LimitRange|exceeds? .*limit range"
    r"|resource validation failed|namespace doesn't match|failed admission checks|failed to assign flavors"
)
_REASONS_OF_REJECTION: Final = ("Inadmissible", "Misconfigured", "Suspended")


def why_pending(reason: str, message: str) -> Why:
    """Why a workload has no quota.

    Args:
        reason: The reason of its condition `QuotaReserved`.
        message: The message of the condition.
    """
    if reason in _REASONS_OF_REJECTION or _REJECTS.search(message):
        text = f"the queue does not take it: {words.first_sentence(message)}"
        return Why(text=text, remedy="pulumi up")
    if passes := _PASSES.search(message):
        return Why(text=f"{WAITS}: {passes[0]}", bad=False)
    if never := [*_too_much(message), *_unfit(message)]:
        return Why(text=f"never runs: {', and '.join(never)}", remedy=_remedy(message))
    text = f"{WAITS}: {words.first_sentence(message)}" if message else WAITS
    return Why(text=text, bad=False)


def _too_much(message: str) -> list[str]:
    """The resources of which it asks for more than the queue ever has."""
    texts: list[str] = []
    for resource, flavor, before, request, most in _MORE_THAN_ALL.findall(message):
        asked = request if before == "0" else f"{before} and {request}"
        texts.append(f"it asks for {asked} {resource}, the queue has {most} at most ({flavor})")
    return texts


def _unfit(message: str) -> list[str]:
    """The flavors, taints and resources that do not fit it."""
    return [
        text.format(*match.groups()) for pattern, text in _NEVER for match in re.finditer(pattern, message)
    ]


def _remedy(message: str) -> str:
    if _MORE_THAN_ALL.search(message):
        return "ask for fewer nodes or GPUs, or raise nodes, the size of the pool; then pulumi up"
    return "its manifest and the queue's flavors must agree: pulumi up --refresh restores what the stack made"
