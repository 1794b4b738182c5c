"""Google's published description of a REST API, and whether a message follows it.

The documents ship with google-api-python-client: https://developers.google.com/discovery/v1/reference/apis
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

_NUMBERS: Final = ("int64", "uint64")
_DURATION: Final = re.compile(r"-?\d+(\.\d{1,9})?s")
# System parameters that the document's own list leaves out.
# https://docs.cloud.google.com/apis/docs/system-parameters
_SYSTEM_PARAMETERS: Final = ("$alt",)
# What an address says already, a body need not repeat.
_IN_ADDRESS: Final = ("id", "name", "projectId")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request that the API has a method for.

    Args:
        method: Id of the method, `cloudbuild.projects.locations.builds.get`.
        address: What the path says, by the document's names, such as `buildsId`.
        query: The query parameters.
        request: Name of the body's schema, None for a method without a body.
        response: Name of the answer's schema, None for a method whose answer is empty.
    """

    method: str
    address: Mapping[str, str]
    query: Mapping[str, str]
    request: str | None
    response: str | None


class Discovery:
    """One API.

    Args:
        api: Name and version, `cloudbuild.v1`.
    """

    def __init__(self, api: str) -> None:
        document = resources.files("googleapiclient") / "discovery_cache" / "documents" / f"{api}.json"
        self._document: dict[str, Any] = json.loads(document.read_text())
        self._methods = list(_methods(self._document))

    def call(self, verb: str, url: str) -> Call | None:
        """The method that a request means, None when the API has none like it."""
        split = urlsplit(url)
        for method in self._methods:
            found = _path(method.get("flatPath", method["path"])).fullmatch(split.path)
            if found and method["httpMethod"] == verb:
                return Call(
                    method=method["id"],
                    address=found.groupdict(),
                    query=dict(parse_qsl(split.query, keep_blank_values=True)),
                    request=method.get("request", {}).get("$ref"),
                    response=method.get("response", {}).get("$ref"),
                )
        return None

    def problems(self, call: Call, body: Any) -> Iterator[str]:
        """What is wrong with a request: unknown parameters and fields, wrong types, missing fields."""
        method = next(each for each in self._methods if each["id"] == call.method)
        known = {*method.get("parameters", ()), *self._document["parameters"], *_SYSTEM_PARAMETERS}
        yield from (f'Unknown name "{name}": no such query parameter' for name in call.query.keys() - known)
        if call.request:
            yield from self.faults(call.request, body)
            yield from self._missing(self._document["schemas"][call.request], body, "")

    def faults(self, schema: str, message: Any) -> Iterator[str]:
        """Where a message does not follow a schema."""
        yield from self._faults({"$ref": schema}, message, "")

    def _faults(self, schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
        schema = self._document["schemas"][schema["$ref"]] if "$ref" in schema else schema
        kind = schema["type"]
        if kind == "object" and isinstance(value, Mapping):
            fields, others = schema.get("properties", {}), schema.get("additionalProperties")
            for key, inner in value.items():
                if key in fields or others:
                    yield from self._faults(fields.get(key, others), inner, f"{path}.{key}".lstrip("."))
                else:
                    yield f"Invalid JSON payload received. Unknown name \"{key}\" at '{path}'"
        elif kind == "array" and isinstance(value, list):
            for index, inner in enumerate(value):
                yield from self._faults(schema["items"], inner, f"{path}[{index}]")
        elif not _is(kind, schema, value):
            yield f"Invalid value at '{path}': {value!r} is no {schema.get('format', kind)}"

    def _missing(self, schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
        for key, field in schema.get("properties", {}).items():
            inner = value.get(key) if isinstance(value, Mapping) else None
            here = f"{path}.{key}".lstrip(".")
            addressed = not path and key in _IN_ADDRESS
            if not inner and not addressed and field.get("description", "").startswith("Required"):
                yield f"{here} is required"
            for nested in inner if isinstance(inner, list) else [inner]:
                target = field.get("items", field).get("$ref")
                if target and nested:
                    yield from self._missing(self._document["schemas"][target], nested, here)


def _is(kind: str, schema: Mapping[str, Any], value: Any) -> bool:
    """Protocol buffers in JSON: 64-bit numbers are texts, an enum is its name or its number."""
    form = schema.get("format")
    if kind == "any":
        return True
    if "enum" in schema:
        return value in schema["enum"] or type(value) is int
    if kind == "string" and form in _NUMBERS:
        return isinstance(value, str) and value.lstrip("-").isdigit()
    if kind == "string" and form == "google-duration":
        return isinstance(value, str) and bool(_DURATION.fullmatch(value))
    types: dict[str, type | tuple[type, ...]] = {"string": str, "boolean": bool, "number": (int, float)}
    if kind == "integer":
        return type(value) is int
    return isinstance(value, types.get(kind, ()))


def _methods(resource: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from _methods(inner)


@cache
def _path(template: str) -> re.Pattern[str]:
    return re.compile("/" + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(template)))
