"""What to do about an error that ended an `up` or a `destroy`.

A table compares the error with the sentences that Google, Kubernetes and the two providers write. Addresses
are left out first: the address of an API server that cannot be reached ends in `?timeout=32s`.
"""

import re
from typing import Final

from components.base.known_errors import KNOWN_ERRORS
from components.base.remedy import GOOGLE, Remedy
from components.base.setting_errors import SETTING_ERRORS

# The APIs that our dynamic resources call: they build images and run jobs.
_CALLS: Final = {"pulumi-python": GOOGLE}

_ADDRESS: Final = re.compile(r"https?://[^\s\"'<>]+")
_QUOTA_NAME: Final = re.compile(
    r"[Qq]uota '([^']+)' exceeded|[Qq]uota exceeded for quota metric '([^']+)'"
    r"|[Ii]nsufficient (?:regional|project) quota to satisfy request: resource \"([^\"]+)\""
    r"|[Qq]uota exceeded for ([\w :-]+?)(?: per project| limit|\.|,|$)|[Qq]uota limit '([^']+)'"
    r"|(?:[Qq]uota violated|[Vv]iolation of quota):?\s*(\w+)|have (?:any |enough )?quota for using "
    r"(GPUs(?: with(?:out)? zonal redundancy)?)"
)

# Compute Engine's error of a stockout names the zones that would do, as data or in its sentence.
# https://github.com/kubernetes/k8s.io/pull/9834
_ZONES: Final = re.compile(
    r"zonesAvailable[\"']?\s*[:=]\s*[\"']?((?:[\w-]+,\s*)*[\w-]+)"
    r"|trying your request in the ((?:[\w-]+,\s*)*[\w-]+) zone"
)

# How the provider names a cluster or pool that GKE has created and calls failed. It is in the state, and the
# next `up` keeps it: `Update` in pkg/tfbridge/provider.go of pulumi-terraform-bridge finds no change.
_FAILED_CREATION: Final = re.compile(
    r"creating (urn:pulumi:\S+[:$]gcp:container/(?:cluster|nodePool):\w+::\S+?): "
)
_REPLACE: Final = (
    "GKE has made it, and `pulumi up` takes it as it is. If the console shows it in the state ERROR, `pulumi "
    "up --replace '{urn}'` makes it anew"
)

_REMEDIES: Final[tuple[Remedy, ...]] = (*SETTING_ERRORS, *KNOWN_ERRORS)


def what_to_do(kind: str, message: str, stack: str, again: str = "pulumi up") -> str:
    """What to do about an error, or an empty text if no row of the table matches.

    Args:
        kind: Type token of the resource that failed.
        message: The error of its provider.
        stack: Name of the stack, for commands.
        again: The command that failed, which the user repeats.
    """
    package = kind.partition(":")[0]
    package = _CALLS.get(package, package)
    text = _ADDRESS.sub("", message)
    actions, urn = [_action(package, text)], ""
    if failed_creation := _FAILED_CREATION.search(text):
        actions.append(_REPLACE)
        urn = failed_creation[1]
    preflight = f"`python -m operations preflight --stack {stack}`"
    return ". ".join(filter(None, actions)).format(
        quota=_quota_in(text),
        stack=stack,
        again=again,
        urn=urn,
        preflight=preflight,
        elsewhere=elsewhere(text),
    )


def elsewhere(message: str) -> str:
    """The zones that have machines, as an error of Compute Engine names them. Empty if it names none."""
    match = _ZONES.search(message)
    if not match:
        return ""
    zones = (match[1] or match[2]).replace(" ", "").split(",")
    return f" (Google has some in {', '.join(zones)})"


def _action(package: str, text: str) -> str:
    """The action of the first row that matches."""
    for remedy in _REMEDIES:
        if remedy.package in ("", package) and re.search(remedy.sentence, text):
            return remedy.action
    return ""


def _quota_in(message: str) -> str:
    """Name of the quota in a message, or where to find it."""
    match = _QUOTA_NAME.search(message)
    if not match:
        return "its name is in the message"
    return next(name for name in match.groups() if name)
