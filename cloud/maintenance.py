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
_ON_A_CHANNEL: Final = ("NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES")
_TIMES: Final = tuple(
    f"{each}.{end}"
    for each in (_EXCLUSIONS, f"{_POLICY}.recurringWindow")
    for end in ("startTime", "endTime")
)
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def policy(inputs: Inputs) -> Iterator[Problem]:
    """One window, and exclusions that say what they exclude and until when."""
    for stated in objects(inputs, _POLICY):
        if sum(given(stated, window) for window in _WINDOWS) != 1:
            yield _POLICY, f"needs exactly one of {', '.join(_WINDOWS)}"
    for exclusion in objects(inputs, _EXCLUSIONS):
        if given(exclusion, "endTime") == given(exclusion, "exclusionOptions.endTimeBehavior"):
            yield _EXCLUSIONS, "needs exactly one of endTime and exclusionOptions.endTimeBehavior"
    scope = f"{_EXCLUSIONS}.exclusionOptions.scope"
    yield from one_of(inputs, scope, "NO_UPGRADES", *_ON_A_CHANNEL)
    yield from one_of(inputs, f"{_EXCLUSIONS}.exclusionOptions.endTimeBehavior", "UNTIL_END_OF_SUPPORT")
    if "UNSPECIFIED" in texts(inputs, "releaseChannel.channel"):
        for text in texts(inputs, scope):
            if text in _ON_A_CHANNEL:
                yield scope, f"{text} is for clusters on a release channel"
    for path in _TIMES:
        for text in texts(inputs, path):
            if not _UTC.fullmatch(text):  # others come back in UTC, and differ for ever
                yield path, f"{text!r} is no time such as 2026-01-31T00:00:00Z"
