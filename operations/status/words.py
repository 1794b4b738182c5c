"""Plain words for what Kubernetes, GKE, Cloud Run and training say when something waits or fails."""

import re
from collections.abc import Iterable
from typing import Final

from operations.status.report import Why

_LICENCE: Final = (
    "accept the model's licence on huggingface.co with the account of the token, then "
    "pulumi config set --secret hfToken and pulumi up"
)

# First match wins: from the particular to the general.
_MESSAGES: Final[tuple[tuple[str, Why], ...]] = (
    (
        r"is gated|GatedRepo|gated repo|awaiting a review",
        Why(text="the model is gated: the token's account has not accepted its licence", remedy=_LICENCE),
    ),
    (
        r"Hub does not know the token|Invalid user token|Invalid credentials in Authorization",
        Why(
            text="Hugging Face does not know the token",
            remedy="make a read token, pulumi config set --secret hfToken, pulumi up",
        ),
    ),
    (
        r"out of resources|RESOURCE_POOL_EXHAUSTED|stockout|does not have enough resources",
        Why(
            text="stockout: Google has no such machine there now",
            remedy="it is tried again; else another zone or region, or capacity.type spot or flexStart",
        ),
    ),
    (
        r"quota exceeded|QUOTA_EXCEEDED|exceeded quota|Quota exceeded|Quota '",
        Why(
            text="quota: the project may not have that many in the region",
            remedy="ask for more under IAM & Admin, Quotas in the console, or ask for less",
        ),
    ),
    (
        r"reservation.*(not found|does not exist|fully|not available|no available)",
        Why(
            text="the reservation cannot be used: it does not exist there, is not shared, or is full",
            remedy="python -m operations preflight says which",
        ),
    ),
    (
        r"CUDA out of memory|OutOfMemoryError",
        Why(text="the GPU's memory is full", remedy="a smaller batch or shorter rows in the recipe"),
    ),
    (
        r"No space left on device|ephemeral.storage|ephemeral local storage",
        Why(
            text="the disk of the pod or its node is full",
            remedy="raise ephemeral-storage in the manifest",
        ),
    ),
    (
        r"not found.*image|manifest unknown|image.*not found|NotFound.*pkg\.dev|name unknown",
        Why(text="the image does not exist", remedy="check imageUri, or leave it out: the stack builds one"),
    ),
    (
        r"denied.*(pkg\.dev|image)|pull access denied|CONTAINER_IMAGE_UNAUTHORIZED|403 Forbidden",
        Why(
            text="the image may not be read",
            remedy="give the stack's node account roles/artifactregistry.reader on its repository",
        ),
    ),
    (
        r"failed to start and listen on the port|HEALTH_CHECK_CONTAINER_ERROR",
        Why(
            text="the server did not come up in time",
            remedy="its log says why: the model does not load, or takes longer than the startup probe",
        ),
    ),
    (
        r"(secret|configmap).*not found|SECRETS_ACCESS_CHECK_FAILED",
        Why(text="a secret or the code that it mounts is not there", remedy="pulumi refresh, then pulumi up"),
    ),
)

_WAITING: Final = {
    "ErrImagePull": Why(text="its image cannot be pulled", remedy="check imageUri and who may read it"),
    "ImagePullBackOff": Why(text="its image cannot be pulled", remedy="check imageUri and who may read it"),
    "InvalidImageName": Why(text="the name of its image is wrong", remedy="check imageUri"),
    "CreateContainerConfigError": Why(
        text="a secret or the code that it mounts is not there", remedy="pulumi refresh, then pulumi up"
    ),
}


def plain(*messages: str) -> Why | None:
    """The plain words for any of the messages; None when none of them is known."""
    for text in messages:
        for pattern, why in _MESSAGES:
            if re.search(pattern, text, re.IGNORECASE):
                return why
    return None


def waiting(reason: str, message: str) -> Why | None:
    """Why a container waits, from the kubelet's reason; None when that is just how containers start."""
    if reason not in _WAITING:
        return None
    return plain(message) or _WAITING[reason]


def unschedulable(message: str) -> Why:
    """Why the scheduler finds no node, from its message: `0/3 nodes are available: ...`."""
    short = re.findall(r"Insufficient ([\w/-]+(?:\.[\w/-]+)*)", message)
    if short:
        return Why(text=f"no node has enough {' and '.join(dict.fromkeys(short))} free", bad=False)
    if "didn't match Pod's node affinity/selector" in message:
        return Why(text="no node is what it asks for (reservation, GPU, zone)", bad=False)
    if "taint" in message:
        return Why(text="the nodes keep it out (taints): they may not be ready yet", bad=False)
    return Why(text=f"no node takes it: {first_sentence([message])}", bad=False)


def no_node_to_make(message: str) -> Why:
    """Why the cluster makes no node, from the autoscaler's message: `pod didn't trigger scale-up: ...`."""
    found = plain(message)
    if found:
        return found
    if "max node group size reached" in message or "max cluster" in message:
        return Why(text="its node pool is at its largest", remedy="raise nodes", bad=True)
    if "in backoff after failed scale-up" in message:
        return Why(text="the last try to make a node failed, the next one comes in minutes", bad=False)
    return Why(
        text="no node that the cluster may make would take it",
        remedy="its node selector (reservation, GPU, region) fits no capacity; see docs/gotchas.md",
    )


def first_sentence(messages: Iterable[str]) -> str:
    """The beginning of the first message that is not empty, in one line."""
    text = " ".join(next((each for each in messages if each), "no reason given").split())
    return re.split(r"(?<=[.;]) ", text)[0].rstrip(".;")[:160]
