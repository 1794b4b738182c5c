"""Rules of a cluster's maintenance policy: when GKE may upgrade it by itself.

Sources: the Google provider's schema and documentation, and
https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions
"""

import re
from collections.abc import Iterator
from typing import Final

from cloud.inputs import given, objects, texts
from cloud.record import Inputs, Problem
from cloud.rules import one_of

_POLICY: Final = "maintenancePolicy"
_EXCLUSIONS: Final = f"{_POLICY}.maintenanceExclusions[]"
_WINDOWS: Final = ("dailyMaintenanceWindow", "recurringWindow", "recurringMaintenanceWindow")
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def policy(inputs: Inputs) -> Iterator[Problem]:
    """One window, and exclusions that say what they exclude and until when."""
    for stated in objects(inputs, _POLICY):
        if sum(given(stated, window) for window in _WINDOWS) != 1:
            yield _POLICY, f"needs exactly one of {', '.join(_WINDOWS)}"
    for exclusion in objects(inputs, _EXCLUSIONS):
        if given(exclusion, "endTime") == given(exclusion, "exclusionOptions.endTimeBehavior"):
            yield _EXCLUSIONS, "needs exactly one of endTime and exclusionOptions.endTimeBehavior"
    options = f"{_EXCLUSIONS}.exclusionOptions"
    yield from one_of(inputs, f"{options}.endTimeBehavior", "UNTIL_END_OF_SUPPORT")
    scopes = ("NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES")
    yield from one_of(inputs, f"{options}.scope", *scopes)
    for scope in texts(inputs, f"{options}.scope"):
        if scope in scopes[1:] and "UNSPECIFIED" in texts(inputs, "releaseChannel.channel"):
            yield f"{options}.scope", f"{scope} is for clusters on a release channel"
    for path in (f"{_POLICY}.recurringWindow", _EXCLUSIONS):
        for text in (*texts(inputs, f"{path}.startTime"), *texts(inputs, f"{path}.endTime")):
            if not _UTC.fullmatch(text):  # others come back in UTC, and differ for ever
                yield path, f"{text!r} is no time such as 2026-01-31T00:00:00Z"
