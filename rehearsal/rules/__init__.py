"""Rules of the platforms that neither the SDK nor the engine checks."""

from collections.abc import Iterator, Mapping
from typing import Any

from cloud import records
from cloud import rules as google
from cloud.record import Problem
from rehearsal.rules import kinds, schema


def problems(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems of a resource's inputs, as far as they are known."""
    if type_token.startswith("kubernetes:"):
        yield from kinds.problems(type_token, inputs)
        return
    try:
        record = records.of(type_token)
    except records.NoRecordError as error:
        yield "", str(error)
        return
    yield from schema.undeclared(type_token, inputs)
    yield from google.problems(record, inputs)
