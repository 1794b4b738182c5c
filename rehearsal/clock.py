"""How long an operation takes on the stand-in platform."""

import re
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cloud.inputs import at, texts
from rehearsal.fake_cloud import Rejected
from rehearsal.rules import tpu

_ZONE = re.compile(r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+")
_TABLE = Path(__file__).with_name("durations.yaml")


class Clock:
    """Lets operations take their published durations, shortened.

    Args:
        seconds_per_minute: Seconds that a minute of the real thing lasts here; 0 for no waiting.
    """

    def __init__(self, seconds_per_minute: float = 0) -> None:
        self.seconds_per_minute = seconds_per_minute
        self._stopped = threading.Event()

    def take(self, type_token: str, operation: str, inputs: Mapping[str, Any]) -> None:
        """Waits as long as `create`, `update` or `delete` of a resource takes.

        Raises:
            Rejected: When the clock is stopped meanwhile.
        """
        if self.seconds_per_minute:
            self._stopped.wait(minutes(type_token, operation, inputs) * self.seconds_per_minute)
        if self._stopped.is_set():
            raise Rejected("interrupted")

    def stop(self) -> None:
        """Ends all waiting, now and later."""
        self._stopped.set()


def minutes(type_token: str, operation: str, inputs: Mapping[str, Any]) -> float:
    """The duration of an operation from `durations.yaml`."""
    package = type_token.split(":")[0]
    for entry in (*_table().get(type_token, ()), *_table().get(package, ())):
        if operation in entry and _applies(entry.get("when", {}), inputs):
            return float(entry[operation])
    raise KeyError(f"{_TABLE.name} has no duration for {operation} of {type_token}")


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    return yaml.safe_load(_TABLE.read_text())


def _applies(when: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    facts = {
        **inputs,
        "awaited": is_awaited(inputs),
        "executed": _is_executed(inputs),
        "zonal": any(map(_ZONE.fullmatch, texts(inputs, "location"))),
        "tpu": any(map(tpu.chips_of, at(inputs, "spec.rayClusterSpec.workerGroupSpecs[].template"))),
    }
    return all(facts.get(key) == wanted for key, wanted in when.items())


def is_awaited(inputs: Mapping[str, Any]) -> bool:
    """Whether Pulumi waits for the object's end: a Job's unless told not to, a custom one's if told to."""
    annotations = (inputs.get("metadata") or {}).get("annotations") or {}
    if inputs.get("kind") == "Job":
        return annotations.get("pulumi.com/skipAwait") != "true"
    return "pulumi.com/waitFor" in annotations


def _is_executed(inputs: Mapping[str, Any]) -> bool:
    """Whether creating or updating a Cloud Run job waits until an execution has ended."""
    return bool(inputs.get("runExecutionToken"))
