"""Plain words for messages of Kubernetes, GKE, Cloud Run and trainings when something waits or fails."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from components.base.remedies import elsewhere
from operations.status.report import Why


@cache
def _known() -> list[tuple[re.Pattern[str], Why]]:
    """The patterns of words.yaml and their meanings."""
    entries = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return [(re.compile(entry.pop("said"), re.IGNORECASE), Why(**entry)) for entry in entries]


def plain(*messages: str) -> Why | None:
    """The plain words for the first known message, None if no message is known."""
    for text in messages:
        for pattern, why in _known():
            if pattern.search(text):
                return replace(why, text=f"{why.text}{elsewhere(text)}")
    return None


def explain(*messages: str, otherwise: str = "{}", remedy: str = "", bad: bool = True) -> Why:
    """The plain words for the first known message, or else its first sentence, put into `otherwise`."""
    text = otherwise.replace("{}", first_sentence(*messages))
    return plain(*messages) or Why(text=text, remedy=remedy, bad=bad)


def unschedulable(message: str) -> Why:
    """Why the scheduler has no node for a pod, from its message: `0/3 nodes are available: ...`."""
    short = re.findall(r"Insufficient ([\w/-]+(?:\.[\w/-]+)*)", message)
    if short:
        return Why(text=f"no node has enough {' and '.join(dict.fromkeys(short))} free", bad=False)
    if "didn't match Pod's node affinity/selector" in message:
        return Why(text="no node is what it asks for (reservation, GPU, zone)", bad=False)
    if "taint" in message:
        return Why(text="the nodes keep it out (taints): they may not be ready yet", bad=False)
    return Why(text=f"no node takes it: {first_sentence(message)}", bad=False)


def no_node_to_make(message: str) -> Why:
    """Why the cluster adds no node, from the autoscaler's message: `pod didn't trigger scale-up: ...`."""
    if "max node group size reached" in message or "max cluster" in message:
        return plain(message) or Why(text="its node pool is at its largest", remedy="raise nodes")
    if "in backoff after failed scale-up" in message:
        text = "the last try to make a node failed, the next one comes in minutes"
        return plain(message) or Why(text=text, bad=False)
    return explain(
        message,
        otherwise="no node that the cluster may make would take it",
        remedy="its node selector (reservation, GPU, region) fits no capacity; see docs/capacity.md",
    )


def first_sentence(*messages: str) -> str:
    """The beginning of the first text that is not empty, in one line."""
    text = " ".join(next(filter(None, messages), "no reason given").split())
    return re.split(r"(?<=[.;]) ", text)[0].rstrip(".;")[:160]
