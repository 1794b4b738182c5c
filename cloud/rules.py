"""Rules that several services share.

A rule is a function from inputs to problems. Rules skip what is not known yet, so they serve previews too.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cloud.inputs import is_set, is_unknown, numbers, objects, texts
from cloud.record import Inputs, Problem, Record

# The name of most things: https://docs.cloud.google.com/compute/docs/naming-resources
RFC1035: Final = r"[a-z]([a-z0-9-]{0,%d}[a-z0-9])?"
RFC1035_RULE: Final = "1-%d of a-z, 0-9, -; a letter first, no - last"

# A region, a zone, or several regions such as `eu` and `nam4`.
# https://docs.cloud.google.com/storage/docs/locations
_PLACE: Final = re.compile(r"[a-z]+(-[a-z]+)+\d+(-[a-z0-9]+)?|[a-z]+\d*", re.IGNORECASE)
ZONE: Final = re.compile(r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LABEL_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS: Final = 64


def problems(record: Record, inputs: Inputs) -> Iterator[Problem]:
    """Why Google or its provider would reject a resource's inputs, as far as they are known."""
    if record.name:
        for name in texts(inputs, record.name.input):
            if not re.fullmatch(record.name.pattern, name):
                yield record.name.input, f"{name!r} is not a valid name: {record.name.rule}"
    if record.labels:
        yield from labels(inputs, record.labels)
    for path in ("location", "region"):
        for place in texts(inputs, path):
            if not _PLACE.fullmatch(place):
                yield path, f"{place!r} is no place such as us-central1, us-central1-a or eu"
            elif ZONE.fullmatch(place) and not (record.zonal and path == "location"):
                yield path, f"{place} is a zone; things of this type are in a region"
    for rule in record.rules:
        yield from rule(inputs)


def one_of(inputs: Inputs, path: str, *choices: str) -> Iterator[Problem]:
    """A text must be one of the choices."""
    for text in texts(inputs, path):
        if text not in choices:
            yield path, f"{text!r} is not one of {', '.join(choices)}"


def at_least(inputs: Inputs, least: int, *paths: str) -> Iterator[Problem]:
    """Numbers must not be smaller."""
    for path in paths:
        for number in numbers(inputs, path):
            if number < least:
                yield path, f"{number} is less than {least}"


def timestamps(inputs: Inputs, *paths: str) -> Iterator[Problem]:
    """Texts must be times as RFC 3339 writes them."""
    for path in paths:
        for text in texts(inputs, path):
            try:
                is_time = bool(_TIMESTAMP.fullmatch(text) and datetime.fromisoformat(text))
            except ValueError:
                is_time = False
            if not is_time:
                yield path, f"{text!r} is not a moment such as 2026-06-01T00:00:00Z"


def excludes(inputs: Inputs, one: str, *others: str) -> Iterator[Problem]:
    """The others must not be set together with `one`."""
    for other in others:
        if is_set(inputs, one) and is_set(inputs, other):
            yield other, f"conflicts with {one}"


def labels(inputs: Inputs, path: str) -> Iterator[Problem]:
    """https://docs.cloud.google.com/resource-manager/docs/labels-overview#requirements"""
    for entries in objects(inputs, path):
        if len(entries) > _MOST_LABELS:
            yield path, f"{len(entries)} labels, at most {_MOST_LABELS} are allowed"
        for key, value in entries.items():
            if not _LABEL_KEY.fullmatch(key):
                yield path, f"label key {key!r}: 1-63 of a-z, 0-9, -, _, a letter first"
            if not is_unknown(value) and not _LABEL_VALUE.fullmatch(str(value)):
                yield path, f"value {value!r} of label {key}: at most 63 of a-z, 0-9, -, _"
