"""Whether an answer has the shape that the API's published description gives it.

Lenient on purpose: fields and enum values that are newer than the description are none of our business.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def faults(document: Mapping[str, Any], method: str, answer: Any) -> Iterator[str]:
    """Where an answer's types are wrong.

    Args:
        document: Description of the API.
        method: Id of the method that answered.
        answer: The answer.
    """
    described = _method(document, method)
    if described and "response" in described:
        yield from _faults(document["schemas"], described["response"], answer, "")


def _method(node: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    for method in node.get("methods", {}).values():
        if method["id"] == name:
            return method
    found = (_method(inner, name) for inner in node.get("resources", {}).values())
    return next((method for method in found if method), None)


def _faults(schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type", "any")
    if kind == "object":
        if not isinstance(value, Mapping):
            yield f"{path or 'it'} is no object"
            return
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, inner in value.items():
            described = fields.get(key, others)
            if described:
                yield from _faults(schemas, described, inner, f"{path}.{key}".lstrip("."))
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{path} is no list"
            return
        for index, inner in enumerate(value):
            yield from _faults(schemas, schema["items"], inner, f"{path}[{index}]")
    elif kind in _TYPES and not isinstance(value, _TYPES[kind]):
        yield f"{path} is no {kind}"
