"""Reads Pulumi's configuration into a pydantic model and tells everything that is wrong with it at once."""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import pulumi
from pulumi.runtime import config as runtime_config
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

M = TypeVar("M", bound="ConfigModel")

# Keys that the engine and the providers read themselves.
_PROVIDER_NAMESPACES: Final = ("gcp", "kubernetes", "pulumi")


class ConfigModel(BaseModel):
    """Settings, each a field: its type, description, default and limits are the field's.

    A field's key is its name in camel case, or its alias where that has a namespace, such as `gcp:project`. A
    field that is a `ConfigModel` itself has dotted keys, such as `capacity.type`.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """What a person, or a rehearsal, is told of a field besides its description.

    Args:
        values: What it may be, in words, where type and limits do not say it.
        fake: Value with which a rehearsal runs where it is missing: only the user of the stack has one.
        secret: Whether it must be stored encrypted; its value is an output and never comes near a message.
    """

    values: str = ""
    fake: str | None = None
    secret: bool = False


# On a field of a type that pydantic cannot check, such as one with outputs in it: its validators do.
Unchecked: Final = GetPydanticSchema(lambda _source, handler: handler(Any))


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
        pattern=r"^[a-z]+(-[a-z]+)+\d+$",
        examples=["us-central1"],
        description="Region of everything; the capacity of machines must be in it.",
    )


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that is wrong with a key.

    Args:
        key: As `pulumi config set` takes it.
        what: What is wrong, and what to do.
    """

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


class SettingsError(Exception):
    """Every problem of a stack's configuration, one line each."""

    def __init__(self, stack: str, problems: Collection[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        number = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"the configuration of stack {stack} has {number}:\n{lines}")


class ConfigReader:
    """The configuration of one stack.

    Args:
        stack: Name of the stack, for the error's first line.
        project: Name of the Pulumi project: the namespace of keys that are written without one.
        values: Full key (`namespace:name`) to its text, as Pulumi hands it to the program.
        secrets: The full keys whose values are stored encrypted.
    """

    def __init__(
        self, *, stack: str, project: str, values: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        self.stack = stack
        self._project = project
        self._values = {key.removeprefix(f"{project}:"): text for key, text in _flat(values)}
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
        problems: list[Problem] = []
        tree = self._tree(model, problems)
        try:
            settings = model.model_validate(tree)
        except ValidationError as error:
            found = [self._told(model, each) for each in error.errors()]
            problems = [problem for problem in found if problem] + problems
        problems += self._of_other_namespaces(model)
        if problems:
            raise SettingsError(self.stack, problems)
        return settings

    def text(self, key: str) -> str | None:
        """The text of a key, None where it is not set."""
        return self._values.get(key)

    def fakes(self, model: type[ConfigModel]) -> dict[str, str]:
        """What a rehearsal puts in for keys that are refused because they are missing, by full key."""
        try:
            self.read(model)
        except SettingsError as error:
            missing = {problem.key for problem in error.problems} - set(self._values)
            known = {key: hint_of(field).fake for key, field in keys_of(model).items() if key in missing}
            return {self.full(key): value for key, value in known.items() if value is not None}
        return {}

    def full(self, key: str) -> str:
        """A key with its namespace."""
        return key if ":" in key else f"{self._project}:{key}"

    def _tree(self, model: type[ConfigModel], problems: list[Problem]) -> dict[str, object]:
        """The values as pydantic takes them: nested where a key has dots, of the field's type."""
        fields = keys_of(model)
        tree: dict[str, object] = {
            field.alias or name: {} for name, field in model.model_fields.items() if _model(field.annotation)
        }
        for key, text in self._values.items():
            field = fields.get(key)
            if field is None and ":" in key:
                continue
            section, dot, name = key.partition(".")
            inner = tree.get(section)
            place, name = (inner, name) if dot and isinstance(inner, dict) else (tree, key)
            if field is not None and hint_of(field).secret:
                place[name] = pulumi.Config(self._project).get_secret(key)
                problems += self._of_secret(key, text, hint_of(field))
            else:
                place[name] = _typed(text, field.annotation) if field else text
        return tree

    def _of_secret(self, key: str, text: str, hint: Hint) -> Iterator[Problem]:
        if key not in self._secrets:
            what = f"is stored in plain text; remove it from the stack file, then {_store(key)}"
            yield Problem(key=key, what=what)
        elif not text or re.search(r"\s", text):
            what = f"is empty or holds white space, so it is not {hint.values}; {_store(key)}"
            yield Problem(key=key, what=what)

    def _told(self, model: type[ConfigModel], error: Mapping[str, Any]) -> Problem | None:
        """A problem that pydantic found, as a person is told of it."""
        first, *rest = (part for part in error["loc"] if isinstance(part, str))
        if error["type"] != "extra_forbidden" and first in model.model_fields:
            first = model.model_fields[first].alias or first  # a default's error has the field's name
        key, fields = ".".join([first, *rest]), keys_of(model)
        if error["type"] == "default_factory_not_called":  # follows from another problem
            return None
        if key not in fields:
            known = f"; this scenario has {', '.join(sorted(fields))}"
            return Problem(key=key, what=f"unknown key{did_you_mean(key, fields) or known}")
        hint = hint_of(fields[key])
        if error["type"] == "missing":
            if hint.secret:
                return Problem(key=key, what=f"missing: {hint.values}; {_store(key)}")
            (example,) = fields[key].examples or ["VALUE"]
            return Problem(key=key, what=f"missing; set it with `pulumi config set {key} {example}`")
        if error["type"] == "value_error":
            return Problem(key=key, what=str(error["ctx"]["error"]))
        text = self._values.get(key, "")
        near = did_you_mean(text, choices(fields[key].annotation))
        return Problem(key=key, what=f"{text!r} is not {values_of(fields[key])}{near}")

    def _of_other_namespaces(self, model: type[ConfigModel]) -> Iterator[Problem]:
        own = {f"{self._project}:{key}" for key in keys_of(model) if ":" not in key}
        for key in self._values:
            namespace, colon, _ = key.partition(":")
            if colon and namespace not in _PROVIDER_NAMESPACES:
                yield Problem(key=key, what=f"unknown namespace {namespace}{did_you_mean(key, own)}")


def keys_of(model: type[ConfigModel], prefix: str = "") -> dict[str, FieldInfo]:
    """The fields by their keys; those of a nested model with a dot."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        if (inner := _model(field.annotation)) is not None:
            found |= keys_of(inner, f"{key}.")
        else:
            found[key] = field
    return found


def hint_of(field: FieldInfo) -> Hint:
    """What is said of a field besides its description."""
    return next((each for each in field.metadata if isinstance(each, Hint)), Hint())


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


def _model(wanted: Any) -> type[ConfigModel] | None:
    return wanted if isinstance(wanted, type) and issubclass(wanted, ConfigModel) else None


def _typed(text: str, wanted: Any) -> object:
    """The text as what a field wants, where it is written like that; pydantic refuses what stays a text."""
    wanted = something(wanted)
    if wanted is bool and text in ("true", "false"):
        return text == "true"
    if wanted is int and re.fullmatch(r"-?\d+", text):
        return int(text)
    if isinstance(wanted, type) and issubclass(wanted, Enum) and text in choices(wanted):
        return wanted(text)
    if get_origin(wanted) is tuple:
        return _several(text)
    return text


def _several(text: str) -> object:
    """One value, or a JSON list of them as `pulumi config set --path` stores it."""
    if not text.startswith("["):
        return (text,)
    try:
        return tuple(json.loads(text))
    except ValueError:
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
