"""Problems that a JSON schema finds."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator

from cloud.inputs import is_unknown
from cloud.record import Problem
from engine.secrets import SECRET


@cache
def validator(file: str, kind: str) -> Validator:
    """Checks by the definition of a kind in a file beside this one."""
    definitions = yaml.safe_load(Path(__file__).with_name(file).read_text())["$defs"]
    return Draft202012Validator({"$defs": definitions, "$ref": f"#/$defs/{kind}"})


def problems(validator: Validator, value: Any, base: str = "") -> Iterator[Problem]:
    """One problem for every place that does not fit; what is not known or not shown always fits."""
    for error in sorted(validator.iter_errors(value), key=lambda found: found.json_path):
        cause = best_match([error])
        if cause and not is_unknown(cause.instance) and cause.instance != SECRET:
            yield f"{base}{cause.json_path.removeprefix('$')}".removeprefix("."), cause.message
