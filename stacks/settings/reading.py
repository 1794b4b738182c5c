"""Fills a model and its topics with values, field by field, and runs their rules."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from operator import getitem
from types import FunctionType, GenericAlias
from typing import Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from stacks.settings.model import (
    ConfigModel,
    InvalidFieldError,
    Place,
    places_left_out,
    places_of,
    rules_of,
    topics_asked,
    topics_of,
)

M = TypeVar("M", bound=ConfigModel)


class Reading(Generic[M]):
    """A model that is filled as far as its values are right.

    Attributes:
        settings: The model. To read a field whose value is missing or wrong raises `InvalidFieldError`.
        errors: What is wrong with a value, by its key. None if the value is missing.

    Args:
        values: JSON-like values by key.
    """

    def __init__(self, model: type[M], values: Mapping[str, object]) -> None:
        self.errors: dict[str, ValidationError | None] = {}
        self._places, left_out = places_of(model), places_left_out(model)
        self._keys = self._places.keys() | left_out
        self._set_keys = self._places.keys() & values.keys()
        self._kinds = topics_of(model)
        right: dict[str, dict[str, Any]] = {name: {} for name in ("", *self._kinds)}
        for place in left_out.values():
            right[place.topic][place.name] = place.field.get_default(call_default_factory=True)
        for key, place in self._places.items():
            if key not in values and place.field.is_required():
                self.errors[key] = None
            elif key not in values:
                right[place.topic][place.name] = place.field.get_default(call_default_factory=True)
            else:
                try:
                    right[place.topic][place.name] = _checked(model, key, place, values[key])
                except ValidationError as error:
                    self.errors[key] = error
        self._topics = {name: _partial(kind, right[name]) for name, kind in self._kinds.items()}
        self.settings = _partial(model, {**self._topics, **right[""]})

    def broken_rules(self) -> Iterator[tuple[str, str]]:
        """The problems that the rules find, with their keys.

        Raises:
            TypeError: If a rule is about a key that the model has not, or takes a topic that it has not.
        """
        broken = set(self.errors)
        for owner in (*self._topics.values(), self.settings):
            for rule in rules_of(type(owner)):
                key, method = rule.key, rule.method
                if key not in self._keys:
                    raise TypeError(f"{method.__qualname__} is about {key}, which is no key")
                others = [self._topic(kind, method) for kind in topics_asked(method)]
                asked = self._set_keys if rule.when_set else self._places.keys()
                if key in broken or key not in asked:
                    continue
                try:
                    method(owner, *others)
                except InvalidFieldError:
                    continue
                except ValueError as error:
                    broken.add(key)
                    self._forget(self._places[key])
                    yield key, str(error)

    def _topic(self, kind: type[ConfigModel], method: FunctionType) -> ConfigModel:
        for topic in self._topics.values():
            if isinstance(topic, kind):
                return topic
        raise TypeError(f"{method.__qualname__} takes {kind.__name__}, which is no topic of the scenario")

    def _forget(self, place: Place) -> None:
        owner = self._topics[place.topic] if place.topic else self.settings
        owner.__dict__.pop(place.name)


def _partial(kind: type[M], values: dict[str, Any]) -> M:
    """A model with these values. Its other fields have none."""
    partial = kind.model_construct(**values)
    for name in kind.model_fields.keys() - values.keys():
        partial.__dict__.pop(name, None)
    return partial


def _checked(model: type[ConfigModel], key: str, place: Place, value: object) -> Any:
    """The value for a field. Half of a surrogate pair, which is not valid text, becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    (checked,) = _adapter(model, key).validate_json(b"[%b]" % text)
    return checked


@cache
def _adapter(model: type[ConfigModel], key: str) -> TypeAdapter[Any]:
    field = places_of(model)[key].field
    kind: Any = field.annotation
    if field.metadata:
        kind = getitem(Annotated, (kind, *field.metadata))
    # As the only one of a tuple, because pydantic takes no configuration for a dataclass.
    only: Any = GenericAlias(tuple, (kind,))
    return TypeAdapter(only, config=ConfigDict(strict=True))
