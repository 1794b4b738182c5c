"""Checks inputs against the SDK's own classes, which declare the inputs of every resource type.

The engine does not check the keys of a dictionary, and the real provider rejects an undeclared one. Names and
types come from the `*Args` classes of the SDK, so the fake provider and the program have one version of the
schema. The values that a text may have come from the documentation of these classes. It is made from the same
description of the API as the provider's own check. A number in quotes is rejected here, although the real
provider accepts it.
"""

import difflib
import importlib
import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pulumi import _types

from cloud.inputs import UNKNOWNS, is_unknown
from cloud.record import Problem
from engine.secrets import SIGNATURE

_WORDS: Final = {"object": "an object", "map": "an object", "list": "a list"}
_SCALARS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
}
_CHOICES: Final = re.compile(r"Possible values are:((?:\s*`[A-Z0-9_]+`,?)+)")
# Ends of the names of properties that are counted or measured.
_NEVER_NEGATIVE: Final = ("Count", "Gb", "Seconds", "Surge", "Unavailable")


def args_class(type_token: str) -> type | None:
    """The SDK's arguments class of a resource type such as `gcp:storage/bucket:Bucket`."""
    return _class(type_token, "Args")


@cache
def _class(type_token: str, ending: str) -> Any:
    package, module, name = type_token.split(":")
    path = module.split("/")[0] if package == "gcp" else module.replace(".sh/", ".").replace("/", ".")
    try:
        return getattr(importlib.import_module(f"pulumi_{package}.{path}"), f"{name}{ending}", None)
    except ImportError:
        return None


def stays(type_token: str, path: str, news: Mapping[str, Any]) -> bool:
    """Whether an input keeps its value if the program no longer sets it. False for inputs in a block.

    In the provider's schema such an input is optional and computed: the arguments may leave it out, and the
    resource always has an output of that name. The SDK's types of blocks do not show this, so `Record.kept`
    lists their inputs.
    """
    return path in _computed(type_token) and news.get(path) is None


@cache
def _computed(type_token: str) -> frozenset[str]:
    arguments, resource = args_class(type_token), _class(type_token, "")
    if arguments is None:
        return frozenset()
    names = {theirs: ours for ours, theirs in _types.input_type_py_to_pulumi_names(arguments).items()}
    optional = names.keys() - set(_required(arguments))
    return frozenset(name for name in optional if _is_never_missing(getattr(resource, names[name], None)))


def _is_never_missing(output: property | None) -> bool:
    """Whether the type of an output, such as `Output[str]`, has no `Optional` in it."""
    if output is None or output.fget is None:
        return False
    (value,) = typing.get_args(output.fget.__annotations__["return"])
    return type(None) not in typing.get_args(value)


def undeclared(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of inputs that their class does not declare, or declares otherwise, at any depth."""
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
            choices = _choices(cls, key)
            if isinstance(item, str) and choices and item not in (*choices, *UNKNOWNS):
                yield f"{path}{key}", f"{item!r} is not one of {', '.join(choices)}"
            continue
        near = difflib.get_close_matches(key, declared, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{path}{key}", f"unexpected property: {cls.__name__} has no {key}{hint}"
    for name in _required(cls):
        if value.get(name) is None:
            yield f"{path}{name}", "missing required property"


def _value_problems(annotation: Any, value: Any, path: str) -> Iterator[Problem]:
    shape, inner = _shape(annotation)
    if is_unknown(value) or value is None or shape == "any":
        return
    wanted, got = _WORDS.get(shape, "a single value"), _form(shape, value)
    if got != wanted:
        yield path, f"expected {wanted}, got {got}"
    elif shape == "object":
        yield from _object_problems(inner, value, f"{path}.")
    elif shape == "list":
        for index, item in enumerate(value):
            yield from _value_problems(inner, item, f"{path}[{index}]")
    elif shape == "map":
        for key, item in value.items():
            yield from _value_problems(inner, item, f"{path}.{key}")
    elif inner:
        yield from _scalar_problems(inner, value, path)


def _form(shape: str, value: Any) -> str:
    """The form of a value in words. A secret, which is an object with a signature, may be a single value."""
    if isinstance(value, list):
        return "a list"
    is_object = isinstance(value, Mapping) and (shape in _WORDS or SIGNATURE not in value)
    return "an object" if is_object else "a single value"


def _scalar_problems(kind: type, value: Any, path: str) -> Iterator[Problem]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    has_kind = is_number if kind in (int, float) else isinstance(value, kind)
    if not has_kind:
        yield path, f"expected {_SCALARS[kind]}, got {value!r}"
    elif is_number and value < 0 and path.endswith(_NEVER_NEGATIVE):
        yield path, f"{value} is negative"


def _shape(annotation: Any) -> tuple[str, Any]:
    """The shape of an annotation: `object`, `list`, `map` of free form, `scalar` or `any`.

    Returns:
        The shape, and the object's class, the type of the items, or the type of the scalar if it is known.
    """
    origin = typing.get_origin(annotation)
    if annotation is Any:
        return "any", None
    if origin is None:
        if isinstance(annotation, type) and _types.is_input_type(annotation):
            return "object", annotation
        return "scalar", annotation if annotation in _SCALARS else None
    if origin in (list, Sequence):
        return "list", typing.get_args(annotation)[0]
    if origin in (dict, Mapping):
        return "map", typing.get_args(annotation)[1]
    shapes = [_shape(member) for member in typing.get_args(annotation)]
    containers = [shape for shape in shapes if shape[0] in ("object", "list", "map")]
    known = [shape for shape in shapes if shape[1]]
    return [*containers, *known, ("scalar", None)][0]


@cache
def _choices(cls: type, name: str) -> tuple[str, ...]:
    """The values that a text property may have. None if its documentation does not list them as expected."""
    names = {theirs: ours for ours, theirs in _types.input_type_py_to_pulumi_names(cls).items()}
    match = _CHOICES.search(getattr(cls, names[name]).__doc__ or "")
    return tuple(re.findall("`(.+?)`", match[1])) if match else ()


@cache
def _declared(cls: type) -> dict[str, Any]:
    return _types.input_type_types(cls)


@cache
def _required(cls: type) -> tuple[str, ...]:
    names = _types.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls.__init__).parameters.values()
    is_empty = inspect.Parameter.empty
    required = [parameter.name for parameter in parameters if parameter.default is is_empty]
    return tuple(names[name] for name in required if name in names)
