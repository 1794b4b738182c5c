"""Rules of buckets, secrets and registries."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import at, given
from rehearsal.rules.compute import one_of
from rehearsal.schema import Problem

_CLASSES: Final = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL")
_ACTIONS: Final = ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")
_FORMATS: Final = ("DOCKER", "MAVEN", "NPM", "APT", "YUM", "PYTHON", "KFP", "GO", "GENERIC")
_DAY: Final = 24 * 3600
_DURATION: Final = re.compile(r"\d+(\.\d+)?s")


def bucket(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Enumerations that the provider passes on unchecked; soft delete lasts 7 to 90 days or not at all.

    https://docs.cloud.google.com/storage/docs/json_api/v1/buckets
    """
    yield from one_of(inputs, "storageClass", _CLASSES)
    yield from one_of(inputs, "publicAccessPrevention", ("enforced", "inherited"))
    yield from one_of(inputs, "lifecycleRules[].action.type", _ACTIONS)
    yield from one_of(inputs, "lifecycleRules[].action.storageClass", _CLASSES)
    for action in at(inputs, "lifecycleRules[].action"):
        sets_class = isinstance(action, Mapping) and action.get("type") == "SetStorageClass"
        if sets_class and not given(action, "storageClass"):
            yield "lifecycleRules", "SetStorageClass needs a storageClass"
    for seconds in at(inputs, "softDeletePolicy.retentionDurationSeconds"):
        if isinstance(seconds, int) and seconds and not 7 * _DAY <= seconds <= 90 * _DAY:
            yield "softDeletePolicy", f"{seconds} s is neither 0 nor between 7 and 90 days"
    if given(inputs, "hierarchicalNamespace.enabled") and not given(inputs, "uniformBucketLevelAccess"):
        yield "hierarchicalNamespace", "needs uniformBucketLevelAccess"


def bucket_object(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """An object has a source or a content."""
    if given(inputs, "source") == (inputs.get("content") is not None):
        yield "source", "exactly one of source and content is needed"


def secret(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """One kind of replication; an empty `auto` block counts."""
    for replication in at(inputs, "replication"):
        if isinstance(replication, Mapping) and len({"auto", "userManaged"} & set(replication)) != 1:
            yield "replication", "exactly one of auto and userManaged is needed"


def repository(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Formats; how long clean-up policies keep things."""
    yield from one_of(inputs, "format", _FORMATS)
    yield from one_of(inputs, "cleanupPolicies[].action", ("DELETE", "KEEP"))
    for path in ("cleanupPolicies[].condition.olderThan", "cleanupPolicies[].condition.newerThan"):
        for duration in at(inputs, path):
            if isinstance(duration, str) and not _DURATION.fullmatch(duration) and not duration.endswith("d"):
                yield path, f"{duration!r} is not a duration such as 2592000s or 30d"
