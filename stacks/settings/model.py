"""What settings are made of: topics with fields, hints about a field, and rules.

A scenario's `Settings` has topics as fields, and keys of its own beside them. A key belongs to one topic. A
rule about one topic's fields is a method of the topic. A rule across topics is a method of the scenario's
`Settings`, or of a topic whose method names the other topic's class as an argument.
"""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from inspect import get_annotations
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, GetPydanticSchema, SecretStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

F = TypeVar("F", bound=FunctionType)
_RULE: Final = "_rule"


class InvalidFieldError(Exception):
    """A field is read whose value is missing or wrong. Its own problem is reported."""


class ConfigModel(BaseModel):
    """Settings. Each is a field, with the setting's type, description, default and limits.

    The key of a setting is the field's name in camel case, or its alias, such as `gcp:project` or
    `capacity.type`. A field whose type is a `ConfigModel` is a topic: its keys are keys of this model. A
    `SecretStr` must be stored encrypted, and no message contains its value.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise InvalidFieldError(name)
            return super().__getattr__(name)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Facts about a field for people and rehearsals, besides its description.

    Args:
        values: The possible values in words, if type and limits do not say them.
        fake: Value for a rehearsal if the setting is missing, because only the user of the stack has one.
        default: The default in words, if it follows from other settings.
    """

    values: str = ""
    fake: str = ""
    default: str = ""


@dataclass(frozen=True)
class Default:
    """A scenario's own default for a key of a topic, beside the topic: `Annotated[Topic, Default(...)]`."""

    key: str
    value: Any


@dataclass(frozen=True)
class Without:
    """A key of a topic that a scenario does not obey, beside the topic: `Annotated[Topic, Without(...)]`.

    The scenario does not know the key. The field has its default.
    """

    key: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the value of a key is: a field of a topic, or of the scenario's `Settings` itself.

    Args:
        topic: Name of the topic's field. Empty for a key of the scenario's own.
        name: Name of the field.
    """

    topic: str
    name: str
    field: FieldInfo


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule about the value of a key.

    Attributes:
        method: Raises a ValueError if the value is wrong.
        when_set: Whether the rule is only about a value that the stack file has, not about a default.
    """

    key: str
    method: FunctionType
    when_set: bool


def rule(key: str, *, when_set: bool = False) -> Callable[[F], F]:
    """Marks a method as a rule, which raises a ValueError about the value of `key`.

    With `when_set` it runs only if the stack file has the key. So it can refuse a key that would do nothing,
    even with its default value.

    Rules run in the order of their topics, once all fields are read. A rule that reads a wrong value is left
    out, because that value has a problem of its own. So is a second rule about a key that has one already.
    """

    def mark(method: F) -> F:
        setattr(method, _RULE, Rule(key=key, method=method, when_set=when_set))
        return method

    return mark


def rules_of(model: type[ConfigModel]) -> Iterator[Rule]:
    """The rules that a model declares or inherits."""
    methods = {name: method for kind in reversed(model.__mro__) for name, method in vars(kind).items()}
    for method in methods.values():
        if isinstance(method, FunctionType) and (marked := getattr(method, _RULE, None)):
            yield marked


def topics_asked(method: FunctionType) -> list[type[ConfigModel]]:
    """The classes of the topics that a rule takes as arguments."""
    annotations = get_annotations(method, eval_str=True)
    return [kind for name, kind in annotations.items() if name != "return"]


def parsed_by(parse: Callable[[Any], Any]) -> GetPydanticSchema:
    """A field that `parse` reads from its text, for types that pydantic does not know, such as outputs."""
    return GetPydanticSchema(lambda _source, handler: handler(Annotated[Any, AfterValidator(parse)]))


def topics_of(model: type[ConfigModel]) -> dict[str, type[ConfigModel]]:
    """The topics of a model by the names of their fields."""
    kinds = {name: _topic(field) for name, field in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if kind}


def places_of(model: type[ConfigModel]) -> dict[str, Place]:
    """Where the value of every key of a model is, in the order of its topics.

    Raises:
        TypeError: If two topics have the same key, or a default is for a key that its topic has not.
    """
    places: dict[str, Place] = {}
    for name, field in model.model_fields.items():
        keys = _places_in(name, field)
        for default in [data for data in field.metadata if isinstance(data, Default)]:
            place = keys[default.key]
            keys[default.key] = replace(place, field=_with(place.field, default.value))
        for key in _left_out(field):
            del keys[key]
        if twice := sorted(keys.keys() & places.keys()):
            raise TypeError(f"two topics of {model.__module__} have {', '.join(twice)}")
        places |= keys
    return places


def places_left_out(model: type[ConfigModel]) -> dict[str, Place]:
    """Where the keys would be that a model leaves out of its topics."""
    fields = model.model_fields.items()
    return {key: _places_in(name, field)[key] for name, field in fields for key in _left_out(field)}


def _places_in(name: str, field: FieldInfo) -> dict[str, Place]:
    """The keys of a topic, or the field's own.

    Raises:
        TypeError: If a default is for a key that the topic has not, or such a key is left out.
    """
    kind = _topic(field)
    inner = kind.model_fields.items() if kind else [(name, field)]
    topic = name if kind else ""
    places = {inside.alias or own: Place(topic=topic, name=own, field=inside) for own, inside in inner}
    for data in field.metadata:
        if isinstance(data, Default | Without) and data.key not in places:
            raise TypeError(f"{name} has no key {data.key}")
    return places


def _left_out(field: FieldInfo) -> list[str]:
    return [data.key for data in field.metadata if isinstance(data, Without)]


def keys_of(model: type[ConfigModel]) -> dict[str, FieldInfo]:
    """The fields of a model and of its topics by their keys."""
    return {key: place.field for key, place in places_of(model).items()}


def values_by_key(settings: ConfigModel) -> dict[str, Any]:
    """The values of settings by their keys."""
    return {
        key: getattr(getattr(settings, place.topic) if place.topic else settings, place.name)
        for key, place in places_of(type(settings)).items()
    }


def hint_of(field: FieldInfo) -> Hint:
    """The hint of a field, or an empty one."""
    return next((data for data in field.metadata if isinstance(data, Hint)), Hint())


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value must be stored encrypted. In a map every value is."""
    kind = without_none(field.annotation)
    return kind is SecretStr or (get_origin(kind) is dict and get_args(kind)[1] is SecretStr)


def values_of(field: FieldInfo) -> str:
    """The possible values of a field, in words."""
    if hint := hint_of(field).values:
        return hint
    kind = without_none(field.annotation)
    if kind is bool:
        return "true or false"
    if kind is int:
        return f"a whole number{_limit(field, 'ge', 'from')}{_limit(field, 'le', 'to')}"
    return f"one of {', '.join(choices(kind))}" if choices(kind) else "a text"


def choices(kind: Any) -> list[str]:
    """The words that a field of this type accepts, or a list of it. Empty if it accepts other values."""
    kind = without_none(kind)
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [member.value for member in kind]
    return []


def without_none(kind: Any) -> Any:
    """The type without None and metadata: `int` of `Annotated[int, ...] | None`."""
    if NoneType in get_args(kind):
        kind = next(inner for inner in get_args(kind) if inner is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _topic(field: FieldInfo) -> type[ConfigModel] | None:
    """The class of the topic that a field is."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, ConfigModel) else None


def _with(field: FieldInfo, default: Any) -> FieldInfo:
    changed = copy(field)
    changed.default = default
    return changed


def _limit(field: FieldInfo, name: str, word: str) -> str:
    """A limit of a number after a word, empty without one. Pydantic keeps it as an attribute of metadata."""
    limits = [getattr(data, name) for data in field.metadata if hasattr(data, name)]
    return f" {word} {limits[0]}" if limits else ""
