"""Problems that a JSON schema finds."""

from collections.abc import Iterator
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import relevance
from jsonschema.protocols import Validator

from cloud.inputs import is_unknown
from cloud.record import Problem
from engine.secrets import SECRET


def problems(validator: Validator, value: Any, base: str = "") -> Iterator[Problem]:
    """One problem for every place that does not fit; what is not known or not shown always fits."""
    for error in sorted(validator.iter_errors(value), key=lambda found: list(map(str, found.path))):
        cause = _cause(error)
        if not is_unknown(cause.instance) and cause.instance != SECRET:
            yield _path(base, cause), cause.message


def _cause(error: ValidationError) -> ValidationError:
    """The most telling error inside one about alternatives."""
    while error.context:
        error = min(error.context, key=relevance)
    return error


def _path(base: str, error: ValidationError) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    return f"{base}{steps}".removeprefix(".")
