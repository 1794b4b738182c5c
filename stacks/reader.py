"""Reads Pulumi's configuration into a pydantic model and tells everything that is wrong with it at once."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes
from pulumi.runtime import config as runtime_config
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    SecretStr,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

M = TypeVar("M", bound="ConfigModel")

REGION: Final = r"^[a-z]+(-[a-z]+)+[0-9]+$"
# Keys that the engine and the providers read themselves; of gcp's the last two are of no `Provider`.
_OTHERS_KEYS: Final[Mapping[str, Collection[str]]] = {
    "gcp": {*map(to_camel, vars(gcp.ProviderArgs)), "disableGlobalProjectWarning", "skipRegionValidation"},
    "kubernetes": {*map(to_camel, vars(kubernetes.ProviderArgs))},
    "pulumi": (),
}


class ConfigModel(BaseModel):
    """Settings, each a field: its type, description, default and limits are the field's.

    A field's key is its name in camel case, or its alias, such as `gcp:project` or `capacity.type`. What is a
    `SecretStr` must be stored encrypted, and its value never comes near a message.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """What a person, or a rehearsal, is told of a field besides its description.

    Args:
        values: What it may be, in words, where type and limits do not say it.
        fake: Value with which a rehearsal runs where it is missing: only the user of the stack has one.
    """

    values: str = ""
    fake: str = ""


def parsed_by(parse: Callable[[Any], Any]) -> GetPydanticSchema:
    """Reads the text of a field whose type pydantic cannot look into, such as one with outputs in it."""
    return GetPydanticSchema(lambda _source, handler: handler(Annotated[Any, AfterValidator(parse)]))


class GoogleSettings(ConfigModel):
    """Where everything is created."""

    project: Annotated[
        str,
        Hint(
            values="a project id (6 to 30 lower-case letters, digits and hyphens, not the project's number)",
            fake="rehearsal-project",
        ),
    ] = Field(
        alias="gcp:project",
        pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$",
        examples=["MY_PROJECT"],
        description="Project that everything is created in.",
    )
    region: Annotated[str, Hint(values="a region such as us-central1 (not a zone)")] = Field(
        alias="gcp:region",
        pattern=REGION,
        examples=["us-central1"],
        description="Region of everything; the capacity of machines must be in it.",
    )


# A key, as `pulumi config set` takes it; what is wrong with it, and what to do.
Problem = tuple[str, str]


class SettingsError(Exception):
    """Every problem of a stack's configuration, one line each."""

    def __init__(self, stack: str, problems: Collection[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {key}: {what}" for key, what in self.problems)
        number = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"the configuration of stack {stack} has {number}:\n{lines}")


class ConfigReader:
    """The configuration of one stack.

    Args:
        project: Name of the Pulumi project: the namespace of keys that are written without one.
        values: Full key (`namespace:name`) to its text, as Pulumi hands it to the program.
        secrets: The full keys whose values are stored encrypted.
    """

    def __init__(
        self, *, stack: str, project: str, values: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        self.stack = stack
        self._project = project
        found = [(key.removeprefix(f"{project}:"), text) for key, text in _flat(values)]
        self._values = dict(found)
        # As `capacity.type`, and in an object `capacity`.
        self._twice = [key for key, times in Counter(key for key, _ in found).items() if times > 1]
        self._secrets = {key.removeprefix(f"{project}:") for key in secrets}

    @classmethod
    def of_program(cls) -> "ConfigReader":
        """The configuration of the stack whose program runs."""
        # pulumi.Config reads key by key; that no other key was set can only be seen here.
        values = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
        return cls(
            stack=pulumi.get_stack(),
            project=pulumi.get_project(),
            values=values,
            secrets={key for key in values if runtime_config.is_config_secret(key)},
        )

    def read(self, model: type[M]) -> M:
        """The settings.

        Raises:
            SettingsError: With every problem; nothing has been registered then.
        """
        fields, problems = keys_of(model), list[Problem]()
        tree = {
            key: _written(text, fields[key].annotation) if key in fields else text
            for key, text in self._values.items()
            if key in fields or ":" not in key
        }
        try:
            # Half of a surrogate pair, which is no text, becomes a question mark.
            settings = model.model_validate_json(
                json.dumps(tree, ensure_ascii=False).encode(errors="replace")
            )
        except ValidationError as error:
            problems += [problem for each in error.errors() if (problem := self._told(model, each))]
        problems += self._in_plain_text(fields)
        problems += self._of_other_namespaces(fields)
        problems += [(key, "is set twice; remove one of them") for key in self._twice]
        if problems:
            raise SettingsError(self.stack, problems)
        return settings

    def text(self, key: str) -> str | None:
        """The text of a key, None where it is not set."""
        return self._values.get(key)

    def fakes(self, model: type[ConfigModel]) -> dict[str, str]:
        """What a rehearsal puts in for keys that are rejected because they are missing, by full key."""
        try:
            self.read(model)
        except SettingsError as error:
            missing = {key for key, _ in error.problems} - set(self._values)
            known = {key: hint_of(field).fake for key, field in keys_of(model).items() if key in missing}
            return {self.full(key): value for key, value in known.items() if value}
        return {}

    def full(self, key: str) -> str:
        """A key with its namespace."""
        return key if ":" in key else f"{self._project}:{key}"

    def _told(self, model: type[ConfigModel], error: Mapping[str, Any]) -> Problem | None:
        """A problem that pydantic found, as a person is told of it."""
        key, fields = error["loc"][0], keys_of(model)
        if error["type"] == "default_factory_not_called":  # follows from another problem
            return None
        if error["type"] == "extra_forbidden":
            known = f"; this scenario has {', '.join(sorted(fields))}"
            return key, f"unknown key{did_you_mean(key, fields) or known}"
        if key in model.model_fields:  # a default's error has the field's name
            key = model.model_fields[key].alias or key
        field = fields[key]
        if error["type"] == "missing":
            if is_secret(field):
                return key, f"missing: {values_of(field)}; {_store(key)}"
            (example,) = field.examples or ["VALUE"]
            return key, f"missing; set it with `pulumi config set {key} {example}`"
        if error["type"] == "value_error":
            stored = f", so it is not {values_of(field)}; {_store(key)}" if is_secret(field) else ""
            return key, f"{error['ctx']['error']}{stored}"
        text = self._values.get(key, "")
        near = did_you_mean(text, choices(field.annotation))
        return key, f"{text!r} is not {values_of(field)}{near}"

    def _in_plain_text(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        for key in self._values:
            if key in fields and is_secret(fields[key]) and key not in self._secrets:
                what = f"is stored in plain text; remove it from the stack file, then {_store(key)}"
                yield key, what

    def _of_other_namespaces(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        own = {f"{self._project}:{key}" for key in fields if ":" not in key}
        for key in self._values:
            namespace, colon, name = key.partition(":")
            if colon and namespace not in _OTHERS_KEYS:
                yield key, f"unknown namespace {namespace}{did_you_mean(key, own)}"
            known = _OTHERS_KEYS.get(namespace) if colon else ()
            if known and name.partition(".")[0] not in known:
                near = did_you_mean(key, [f"{namespace}:{each}" for each in known])
                yield key, f"the provider has no such setting{near}"


def keys_of(model: type[ConfigModel]) -> dict[str, FieldInfo]:
    """The fields by their keys."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def hint_of(field: FieldInfo) -> Hint:
    """What is said of a field besides its description."""
    return next((each for each in field.metadata if isinstance(each, Hint)), Hint())


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value must be stored encrypted."""
    return something(field.annotation) is SecretStr


def values_of(field: FieldInfo) -> str:
    """What a field may be, in words."""
    if said := hint_of(field).values:
        return said
    wanted = something(field.annotation)
    if wanted is bool:
        return "true or false"
    if wanted is int:
        lowest, highest = (
            next(getattr(each, limit) for each in field.metadata if hasattr(each, limit))
            for limit in ("ge", "le")
        )
        return f"a whole number from {lowest} to {highest}"
    return f"one of {', '.join(choices(wanted))}" if choices(wanted) else "a text"


def did_you_mean(text: str, known: Collection[str]) -> str:
    """The end of a message: the known word nearest to `text`, if one is near."""
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def choices(wanted: Any) -> list[str]:
    """What a field of this type may be, where that is one of a few words."""
    wanted = something(wanted)
    if get_origin(wanted) is Literal:
        return [str(each) for each in get_args(wanted)]
    return [each.value for each in wanted] if isinstance(wanted, type) and issubclass(wanted, Enum) else []


def something(wanted: Any) -> Any:
    """The type without None: `int` of `int | None`."""
    inner = [each for each in get_args(wanted) if each is not NoneType]
    return inner[0] if NoneType in get_args(wanted) else wanted


def _written(text: str, wanted: Any) -> object:
    """The text as JSON has it, where its field wants a number, a truth or one or several texts."""
    wanted = something(wanted)
    several = get_origin(wanted) is tuple
    if several or wanted in (bool, int):
        try:
            return text if text.strip() == "null" else json.loads(text)
        except ValueError:
            return [text] if several else text
    return text


def as_text(value: object) -> str:
    """A value of a stack file as Pulumi hands it to the program."""
    return value if isinstance(value, str) else json.dumps(value)


def _store(key: str) -> str:
    return f"`pulumi config set --secret {key}` asks for it and stores it encrypted"


def _flat(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`pulumi config set --path capacity.type spot` stores an object: read it as `capacity.type`."""
    for key, text in values.items():
        try:
            found = json.loads(text) if text.startswith("{") else None
        except ValueError:
            found = None
        if isinstance(found, dict):
            yield from _flat({f"{key}.{name}": as_text(each) for name, each in found.items()})
        else:
            yield key, text
