"""What the SDK's own classes say about the inputs of a resource: which exist, which are required.

The engine passes on whatever the program sends: a dictionary key that no class declares reaches the
provider, which rejects it. The declared names and types are read from the `*Args` classes of the
SDK, so the fake provider and the program agree on one version of the schema.
"""

import difflib
import importlib
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pulumi import _types

from cloud.inputs import is_unknown
from cloud.record import Problem
from engine.secrets import SIGNATURE

_WORDS: Final = {"object": "an object", "map": "an object", "list": "a list"}


@cache
def args_class(type_token: str) -> type | None:
    """The SDK's arguments class of a resource type such as `gcp:storage/bucket:Bucket`."""
    package, module, name = type_token.split(":")
    path = module.split("/")[0] if package == "gcp" else module.replace(".sh/", ".").replace("/", ".")
    try:
        found = importlib.import_module(f"pulumi_{package}.{path}")
    except ImportError:
        return None
    return getattr(found, f"{name}Args", None)


def undeclared(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of the inputs with the resource's declared properties, at any depth."""
    cls = args_class(type_token)
    if cls is None:
        yield "", f"the SDK has no resource of type {type_token}"
        return
    yield from _object_problems(cls, inputs, "")


def _object_problems(cls: type, value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    declared = _declared(cls)
    for key, item in value.items():
        if key.startswith("__") or item is None:
            continue
        if key in declared:
            yield from _value_problems(declared[key], item, f"{path}{key}")
            continue
        near = difflib.get_close_matches(key, declared, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{path}{key}", f"unexpected property: {cls.__name__} has no {key}{hint}"
    for name in _required(cls):
        if value.get(name) is None:
            yield f"{path}{name}", "missing required property"


def _value_problems(annotation: Any, value: Any, path: str) -> Iterator[Problem]:
    if is_unknown(value):
        return
    shape, inner = _shape(annotation)
    wanted, got = _WORDS.get(shape, "a single value"), "a single value"
    if isinstance(value, list):
        got = "a list"
    elif isinstance(value, Mapping) and (shape in _WORDS or SIGNATURE not in value):
        got = "an object"
    if got != wanted:
        yield path, f"expected {wanted}, got {got}"
    elif shape == "object":
        yield from _object_problems(inner, value, f"{path}.")
    elif shape == "list":
        for index, item in enumerate(value):
            yield from _value_problems(inner, item, f"{path}[{index}]")


def _shape(annotation: Any) -> tuple[str, Any]:
    """Whether an annotation is an `object` (and its class), a `list`, a free-form `map`, or one value."""
    origin = typing.get_origin(annotation)
    if origin is None:
        is_object = isinstance(annotation, type) and _types.is_input_type(annotation)
        return ("object", annotation) if is_object else ("any" if annotation is Any else "scalar", None)
    if origin in (list, Sequence):
        return "list", typing.get_args(annotation)[0]
    if origin in (dict, Mapping):
        return "map", None
    for member in typing.get_args(annotation):
        shape, inner = _shape(member)
        if shape in ("object", "list", "map"):
            return shape, inner
    return "scalar", None


@cache
def _declared(cls: type) -> dict[str, Any]:
    return _types.input_type_types(cls)


@cache
def _required(cls: type) -> tuple[str, ...]:
    names = _types.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls.__init__).parameters.values()
    required = (each.name for each in parameters if each.default is inspect.Parameter.empty)
    return tuple(names[name] for name in required if name in names)
