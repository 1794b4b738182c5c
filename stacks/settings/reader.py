"""Reads Pulumi's configuration into a pydantic model, and reports all problems at once."""

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

from cloud.credentials import ACCESS_TOKEN, CREDENTIALS

M = TypeVar("M", bound="ConfigModel")

REGION: Final = r"^[a-z]+(-[a-z]+)+[0-9]+$"
# Settings of Google's provider that give access. Credentials may also be a path, which gives none.
PROVIDER_SECRETS: Final = (ACCESS_TOKEN, CREDENTIALS)
# Lengths in characters. The search for the nearest word takes time that grows with the square of the length.
_LONGEST_WORD: Final = 100
_LONGEST_TEXT: Final = 1000
# Keys that the engine and the providers read. The last two of gcp are missing in the SDK's `ProviderArgs`.
_FOREIGN_KEYS: Final[Mapping[str, Collection[str]]] = {
    "gcp": {*map(to_camel, vars(gcp.ProviderArgs)), "disableGlobalProjectWarning", "skipRegionValidation"},
    "kubernetes": {*map(to_camel, vars(kubernetes.ProviderArgs))},
    "pulumi": (),
}


class ConfigModel(BaseModel):
    """Settings. Each is a field, with the setting's type, description, default and limits.

    The key of a setting is the field's name in camel case, or its alias, such as `gcp:project` or
    `capacity.type`. A `SecretStr` must be stored encrypted, and no message contains its value.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Facts about a field for people and rehearsals, besides its description.

    Args:
        values: The possible values in words, if type and limits do not say them.
        fake: Value for a rehearsal if the setting is missing, because only the user of the stack has one.
    """

    values: str = ""
    fake: str = ""


def parsed_by(parse: Callable[[Any], Any]) -> GetPydanticSchema:
    """A field that `parse` reads from its text, for types that pydantic does not know, such as outputs."""
    return GetPydanticSchema(lambda _source, handler: handler(Annotated[Any, AfterValidator(parse)]))


class GoogleSettings(ConfigModel):
    """Settings of the project and region."""

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
        description="Project in which everything is created.",
    )
    region: Annotated[str, Hint(values="a region such as us-central1 (not a zone)")] = Field(
        alias="gcp:region",
        pattern=REGION,
        examples=["us-central1"],
        description="Region of all resources. It must be the region of the machines' capacity.",
    )


# A key in the spelling of `pulumi config set`, and a text that says what is wrong and what to do.
Problem = tuple[str, str]


class SettingsError(Exception):
    """All problems of a stack's configuration, one line each."""

    def __init__(self, stack: str, problems: Collection[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {_readable(key)}: {_readable(text)}" for key, text in self.problems)
        number = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"the configuration of stack {stack} has {number}:\n{lines}")


class ConfigReader:
    """The configuration of one stack.

    Args:
        project: Name of the Pulumi project, which is the namespace of keys without a namespace.
        values: Texts by full key (`namespace:name`), as Pulumi passes them to the program.
        secrets: Full keys whose values are stored encrypted.
    """

    def __init__(
        self, *, stack: str, project: str, values: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        self.stack = stack
        self._project = project
        # What is below another namespace is the provider's to read, such as a key file's content.
        own = {key: text for key, text in values.items() if key.startswith(f"{project}:") or ":" not in key}
        others = {key: text for key, text in values.items() if key not in own}
        texts = [(key.removeprefix(f"{project}:"), text) for key, text in (*_flat(own), *others.items())]
        self._values = dict(texts)
        # For example once as `capacity.type` and once inside an object `capacity`.
        counts = Counter(key for key, _ in texts)
        self._repeated_keys = [key for key, count in counts.items() if count > 1]
        self._secrets = {key.removeprefix(f"{project}:") for key in secrets}

    @classmethod
    def of_program(cls) -> "ConfigReader":
        """The configuration of the stack that this program runs for."""
        # pulumi.Config reads one key at a time and cannot list unknown keys.
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
            SettingsError: If the configuration has problems. It lists all of them.
        """
        fields, problems = keys_of(model), list[Problem]()
        tree = self._tree(fields)
        try:
            # Half of a surrogate pair, which is not valid text, becomes a question mark.
            settings = model.model_validate_json(
                json.dumps(tree, ensure_ascii=False).encode(errors="replace")
            )
        except ValidationError as error:
            problems += filter(None, (self._problem(model, detail) for detail in error.errors()))
        problems += self._plain_text_problems(fields)
        problems += self._namespace_problems(fields)
        problems += [(key, "is set twice; remove one of them") for key in self._repeated_keys]
        if problems:
            raise SettingsError(self.stack, problems)
        return settings

    def text(self, key: str) -> str | None:
        """The text of a key. None if the key is not set."""
        return self._values.get(key)

    def fakes(self, model: type[ConfigModel]) -> dict[str, str]:
        """Stand-ins for required keys that are missing, by full key, for a rehearsal."""
        try:
            self.read(model)
        except SettingsError as error:
            missing = {key for key, _ in error.problems} - set(self._values)
            fakes = {key: hint_of(field).fake for key, field in keys_of(model).items() if key in missing}
            return {self.full(key): fake for key, fake in fakes.items() if fake}
        return {}

    def full(self, key: str) -> str:
        """A key with its namespace."""
        return key if ":" in key else f"{self._project}:{key}"

    def _tree(self, fields: Mapping[str, FieldInfo]) -> dict[str, object]:
        """The values for pydantic. A map is one value, although its keys were opened."""
        tree: dict[str, object] = {}
        for key, text in self._values.items():
            map_key, _, inner_key = key.partition(".")
            entries = tree.setdefault(map_key, {}) if inner_key and _is_map(fields.get(map_key)) else None
            if isinstance(entries, dict):
                entries[inner_key] = text
            elif key in fields:
                tree[key] = _parsed(text, fields[key].annotation)
            elif ":" not in key:
                tree[key] = text
        return tree

    def _problem(self, model: type[ConfigModel], error: Mapping[str, Any]) -> Problem | None:
        """An error of pydantic as a problem in plain words. None if it only follows from another one."""
        key, fields = error["loc"][0], keys_of(model)
        if error["type"] == "default_factory_not_called":
            return None
        if error["type"] == "extra_forbidden":
            all_keys = f"; this scenario has {', '.join(sorted(fields))}"
            return key, f"unknown key{did_you_mean(key, fields) or all_keys}"
        # The error of a default value names the field instead of its key.
        if key in model.model_fields:
            key = model.model_fields[key].alias or key
        field = fields[key]
        if error["type"] == "missing":
            if is_secret(field):
                return key, f"missing: {values_of(field)}; {_store(key)}"
            (example,) = field.examples or ["VALUE"]
            return key, f"missing; set it with `pulumi config set {key} {example}`"
        if error["type"] == "value_error":
            remedy = f", so it is not {values_of(field)}; {_store(key)}" if is_secret(field) else ""
            return key, f"{error['ctx']['error']}{remedy}"
        text = self._values.get(key, "")
        # In a list, the error is one of its words.
        word = error["input"] if isinstance(error["input"], str) else text
        proposal = did_you_mean(word, choices(field.annotation))
        return key, f"{text!r} is not {values_of(field)}{proposal}"

    def _plain_text_problems(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        for key in self._values:
            if key in fields and is_secret(fields[key]) and key not in self._secrets:
                yield key, _in_plain_text(key)
        for key in PROVIDER_SECRETS:
            text = self._values.get(key, "")
            is_path = key == CREDENTIALS and not text.lstrip().startswith("{")
            if text and not is_path and key not in self._secrets:
                yield key, _in_plain_text(key)

    def _namespace_problems(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        own_keys = {f"{self._project}:{key}" for key in fields if ":" not in key}
        for key in self._values:
            namespace, colon, name = key.partition(":")
            if not colon:
                continue
            if namespace not in _FOREIGN_KEYS:
                yield key, f"unknown namespace {namespace}{did_you_mean(key, own_keys)}"
                continue
            known_names = _FOREIGN_KEYS[namespace]
            if known_names and name.partition(".")[0] not in known_names:
                proposal = did_you_mean(key, [f"{namespace}:{known}" for known in known_names])
                yield key, f"the provider has no such setting{proposal}"


def keys_of(model: type[ConfigModel]) -> dict[str, FieldInfo]:
    """The fields of a model by their keys."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def hint_of(field: FieldInfo) -> Hint:
    """The hint of a field, or an empty one."""
    return next((data for data in field.metadata if isinstance(data, Hint)), Hint())


def is_secret(field: FieldInfo) -> bool:
    """Whether a field's value must be stored encrypted."""
    return without_none(field.annotation) is SecretStr


def values_of(field: FieldInfo) -> str:
    """The possible values of a field, in words."""
    if hint := hint_of(field).values:
        return hint
    kind = without_none(field.annotation)
    if kind is bool:
        return "true or false"
    if kind is int:
        return f"a whole number from {_limit(field, 'ge')} to {_limit(field, 'le')}"
    return f"one of {', '.join(choices(kind))}" if choices(kind) else "a text"


def _limit(field: FieldInfo, name: str) -> int:
    """A limit of a number, which pydantic keeps as an attribute of some metadata."""
    return next(getattr(data, name) for data in field.metadata if hasattr(data, name))


def did_you_mean(text: str, known: Collection[str]) -> str:
    """The end of a message that proposes the known word nearest to `text`. Empty if none is near."""
    if len(text) > _LONGEST_WORD:
        return ""
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


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
    """The type without None: `int` of `int | None`."""
    if NoneType not in get_args(kind):
        return kind
    return next(inner for inner in get_args(kind) if inner is not NoneType)


def _is_map(field: FieldInfo | None) -> bool:
    return field is not None and get_origin(field.annotation) is dict


def _parsed(text: str, kind: Any) -> object:
    """The value of a text for pydantic: parsed as JSON, except for texts and words."""
    kind = without_none(kind)
    is_list = get_origin(kind) is tuple
    if text.strip() == "null" or not (is_list or kind in (bool, int) or get_origin(kind) is dict):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return [text] if is_list else text


def as_text(value: object) -> str:
    """A value of a stack file as the text that Pulumi passes to the program."""
    return value if isinstance(value, str) else json.dumps(value)


def _readable(text: str) -> str:
    """A text of bounded length in printable characters, for messages that repeat a user's value."""
    if len(text) > _LONGEST_TEXT:
        end = _LONGEST_TEXT // 2
        text = f"{text[:end]} ... {len(text) - 2 * end} more ... {text[-end:]}"
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        for character in text
    )


def _in_plain_text(key: str) -> str:
    return f"is stored in plain text; remove it from the stack file, then {_store(key)}"


def _store(key: str) -> str:
    return f"`pulumi config set --secret {key}` asks for it and stores it encrypted"


def _flat(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys and texts with objects opened: `pulumi config set --path capacity.type spot` stores an object."""
    for key, text in values.items():
        try:
            tree = json.loads(text) if text.startswith("{") else None
        except (ValueError, RecursionError):
            tree = None
        # An empty object would leave no trace of its key.
        if isinstance(tree, dict) and tree:
            yield from _flat({f"{key}.{name}": as_text(value) for name, value in tree.items()})
        else:
            yield key, text
