"""Google's published descriptions of its REST APIs, and checks of requests and answers against them.

The documents ship with google-api-python-client: https://developers.google.com/discovery/v1/reference/apis
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from googleapiclient.discovery_cache import get_static_doc

_NUMBERS: Final = ("int64", "uint64")
_DURATION: Final = re.compile(r"-?\d+(\.\d{1,9})?s")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (Mapping,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
# System parameters that the document's own list leaves out.
# https://docs.cloud.google.com/apis/docs/system-parameters
_SYSTEM_PARAMETERS: Final = ("$alt",)
# The address already has these, so a body need not repeat them.
_IN_ADDRESS: Final = ("id", "name", "projectId")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request that the API has a method for.

    Args:
        method: Id of the method, `cloudbuild.projects.locations.builds.get`.
        address: Values in the path, by the document's names, such as `buildsId`.
    """

    method: str
    address: Mapping[str, str]
    query: Mapping[str, str]


class Discovery:
    """One API.

    Attributes:
        methods: Its methods by id, with those of inner resources.

    Raises:
        LookupError: When there is no description of that name.
    """

    def __init__(self, api: str) -> None:
        text = get_static_doc(*api.split(".", 1)) if "." in api else None
        if text is None:
            raise LookupError(f"Google's client library has no description of {api}")
        self.document: dict[str, Any] = json.loads(text)
        self.methods = {method["id"]: method for method in _methods(self.document)}

    def method(self, name: str) -> Mapping[str, Any] | None:
        """The description of a method. Its name has no API in front: `projects.locations.builds.get`."""
        return self.methods.get(f"{self.document['name']}.{name}")

    def required(self, name: str) -> Mapping[str, bool]:
        """The required parameters of a method, and whether a parameter is a path such as `projects/P/...`."""
        method = self.method(name) or {"parameterOrder": ()}
        parameters = {name: method["parameters"][name] for name in method["parameterOrder"]}
        return {
            name: parameter.get("pattern", "").startswith("^projects/")
            for name, parameter in parameters.items()
        }

    def fields(self, name: str) -> Mapping[str, Any]:
        """The fields of a method's answer, by name."""
        method = self.method(name) or {}
        return self.schema(method.get("response", {})).get("properties", {})

    def listed(self, name: str) -> str:
        """The field of a listing method's answer that holds the list."""
        fields = self.fields(name)
        return next((key for key, field in fields.items() if "$ref" in field.get("items", {})), "items")

    def call(self, verb: str, url: str) -> Call | None:
        """The method that a request calls, None when the API has no such method."""
        split = urlsplit(url)
        path = split.path.removeprefix(f"/{self.document['servicePath']}".rstrip("/"))
        for name, method in self.methods.items():
            match = _path(method.get("flatPath", method["path"])).fullmatch(path)
            if match and method["httpMethod"] == verb:
                address = {key: unquote(text) for key, text in match.groupdict().items()}
                query = dict(parse_qsl(split.query, keep_blank_values=True))
                return Call(method=name, address=address, query=query)
        return None

    def problems(self, call: Call, body: Any) -> Iterator[str]:
        """What is wrong with a request: unknown parameters and fields, wrong types, missing fields."""
        method = self.methods[call.method]
        known = {*method.get("parameters", ()), *self.document["parameters"], *_SYSTEM_PARAMETERS}
        yield from (f'Unknown name "{name}": no such query parameter' for name in call.query.keys() - known)
        if "request" in method:
            yield from self._faults(method["request"], body, "", newer=False)
            yield from self._missing(method["request"], body, "")

    def faults(self, method: str, answer: Any, *, newer: bool = False) -> Iterator[str]:
        """Where an answer does not follow the description.

        Args:
            newer: Whether to accept fields, enum values and formats that the description does not know.
        """
        if "response" in self.methods[method]:
            yield from self._faults(self.methods[method]["response"], answer, "", newer=newer)

    def resource_problems(self, name: str, body: Any) -> Iterator[str]:
        """Where a resource, such as `Cluster`, does not follow its description."""
        yield from self._faults({"$ref": name}, body, "", newer=False)

    def _faults(self, schema: Mapping[str, Any], value: Any, path: str, *, newer: bool) -> Iterator[str]:
        schema = self.schema(schema)
        kind = schema.get("type", "any")
        if "enum" in schema and type(value) is int:
            # The client libraries of Google Cloud send enums by number.
            return
        if kind in _TYPES and not isinstance(value, _TYPES[kind]):
            wanted = kind if newer else schema.get("format", kind)
            yield f"{path or 'it'} is no {'list' if kind == 'array' else wanted}"
        elif kind == "object":
            fields, others = schema.get("properties", {}), schema.get("additionalProperties")
            for key, inner in value.items():
                if key in fields or others:
                    here = f"{path}.{key}".lstrip(".")
                    yield from self._faults(fields.get(key, others), inner, here, newer=newer)
                elif not newer:
                    yield f"Invalid JSON payload received. Unknown name \"{key}\" at '{path}'"
        elif kind == "array":
            for index, inner in enumerate(value):
                yield from self._faults(schema["items"], inner, f"{path}[{index}]", newer=newer)
        elif not newer and not _is(schema, value):
            yield f"Invalid value at '{path}': {value!r} is no {schema.get('format', kind)}"

    def _missing(self, schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
        for key, field in self.schema(schema).get("properties", {}).items():
            inner = value.get(key) if isinstance(value, Mapping) else None
            here = f"{path}.{key}".lstrip(".")
            addressed = not path and key in _IN_ADDRESS
            if not inner and not addressed and field.get("description", "").startswith("Required"):
                yield f"{here} is required"
            members = inner if isinstance(inner, list) else [inner]
            for nested in members:
                if nested and "$ref" in field.get("items", field):
                    yield from self._missing(field.get("items", field), nested, here)

    def schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The description that a reference names, or the description itself."""
        return self.document["schemas"][schema["$ref"]] if "$ref" in schema else schema


@cache
def discovery(api: str) -> Discovery:
    """The description of an API, read once."""
    return Discovery(api)


def _is(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value fits a schema, as protocol buffers are written in JSON.

    A 64-bit number is a text, and an enum is its name. A truth value is no number.
    """
    form = schema.get("format")
    if "enum" in schema:
        return value in schema["enum"]
    if form in _NUMBERS:
        return value.lstrip("-").isdigit()
    if form == "google-duration":
        return bool(_DURATION.fullmatch(value))
    return schema.get("type", "any") in ("any", "boolean") or not isinstance(value, bool)


def _methods(resource: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from _methods(inner)


@cache
def _path(template: str) -> re.Pattern[str]:
    return re.compile("/" + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(template)))
