"""Reads Pulumi's configuration into a pydantic model, and reports all problems at once."""

import difflib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar, get_origin

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes
from pulumi.runtime import config as runtime_config
from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from cloud.credentials import ACCESS_TOKEN, CREDENTIALS
from stacks.settings.model import ConfigModel, choices, hint_of, is_secret, keys_of, values_of, without_none
from stacks.settings.reading import Reading

M = TypeVar("M", bound=ConfigModel)

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
        fields = keys_of(model)
        reading = Reading(model, self._tree(fields))
        problems = [self._field_problem(fields, key, error) for key, error in reading.errors.items()]
        problems += reading.broken_rules()
        problems += self._unknown_keys(fields)
        problems += self._plain_text_problems(fields)
        problems += self._namespace_problems(fields)
        problems += [(key, "is set twice; remove one of them") for key in self._repeated_keys]
        if problems:
            raise SettingsError(self.stack, problems)
        return reading.settings

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
        """The values of known keys. A map is one value, although its keys were opened."""
        tree: dict[str, object] = {}
        for key, text in self._values.items():
            map_key, _, inner_key = key.partition(".")
            entries = tree.setdefault(map_key, {}) if inner_key and _is_map(fields.get(map_key)) else None
            if isinstance(entries, dict):
                entries[inner_key] = text
            elif key in fields:
                tree[key] = _parsed(text, fields[key].annotation)
        return tree

    def _field_problem(
        self, fields: Mapping[str, FieldInfo], key: str, error: ValidationError | None
    ) -> Problem:
        """What is wrong with a value, in plain words. `error` is None if the value is missing."""
        field = fields[key]
        if error is None:
            if is_secret(field):
                return key, f"missing: {values_of(field)}; {_store(key)}"
            (example,) = field.examples or ["VALUE"]
            return key, f"missing; set it with `pulumi config set {key} {example}`"
        (detail, *_) = error.errors()
        if detail["type"] == "value_error":
            remedy = f", so it is not {values_of(field)}; {_store(key)}" if is_secret(field) else ""
            return key, f"{detail['ctx']['error']}{remedy}"
        if is_secret(field):
            return key, f"is not {values_of(field)}; {_store(key)}"
        text = self._values.get(key, "")
        # In a list, the error is one of its words.
        word = detail["input"] if isinstance(detail["input"], str) else text
        proposal = did_you_mean(word, choices(field.annotation))
        return key, f"{text!r} is not {values_of(field)}{proposal}"

    def _unknown_keys(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        for key in self._values:
            is_entry = _is_map(fields.get(key.partition(".")[0]))
            if key not in fields and ":" not in key and not is_entry:
                yield key, f"unknown key{_proposal(key, fields)}"

    def _plain_text_problems(self, fields: Mapping[str, FieldInfo]) -> Iterator[Problem]:
        for key in self._values:
            # Pulumi calls a whole map secret if one of its values is.
            name = key.partition(".")[0] if _is_map(fields.get(key.partition(".")[0])) else key
            if name in fields and is_secret(fields[name]) and self._secrets.isdisjoint((key, name)):
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


def did_you_mean(text: str, known: Collection[str]) -> str:
    """The end of a message that proposes the known word nearest to `text`. Empty if none is near."""
    if len(text) > _LONGEST_WORD:
        return ""
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _proposal(key: str, fields: Collection[str]) -> str:
    """The end of a message about an unknown key: the nearest key, or all that there are in its place."""
    place, dot, name = key.rpartition(".")
    inside = {known.removeprefix(f"{place}."): known for known in fields if known.startswith(f"{place}{dot}")}
    if dot and inside:
        near = difflib.get_close_matches(name[:_LONGEST_WORD], inside, n=1)
        if near:
            return f"; did you mean {inside[near[0]]}?"
        return f"; this scenario has {', '.join(inside.values())}"
    return did_you_mean(key, fields) or f"; this scenario has {', '.join(sorted(fields))}"


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
    path = "--path " if "." in key and ":" not in key else ""
    return f"`pulumi config set --secret {path}{key}` asks for it and stores it encrypted"


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
