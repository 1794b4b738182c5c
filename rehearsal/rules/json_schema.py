"""Problems that a JSON schema finds."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from cloud.inputs import is_unknown
from cloud.record import Problem
from engine.secrets import SECRET

# What the definitions of Ray's and Kueue's kinds say of their specs, for a rehearsal without an API server.
# Written by `python -m tests.control_plane.definitions`.
DEFINITIONS: Final = Path(__file__).with_name("definitions.json")


@cache
def validator(kind: str) -> Validator:
    """Checks the spec of a kind that Kubernetes does not bring."""
    return Draft202012Validator(json.loads(DEFINITIONS.read_text())[kind])


def problems(validator: Validator, value: Any, base: str = "") -> Iterator[Problem]:
    """One problem for every place that does not fit; what is not known or not shown always fits."""
    for error in sorted(validator.iter_errors(value), key=lambda found: found.json_path):
        cause = best_match([error])
        if cause and not is_unknown(cause.instance) and cause.instance != SECRET:
            yield f"{base}{cause.json_path.removeprefix('$')}".removeprefix("."), cause.message
