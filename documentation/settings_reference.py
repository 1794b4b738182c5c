"""The reference of the settings: what the program asks its configuration for, and what that means."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Final, get_type_hints

import pulumi
import yaml

from documentation.asked_keys import Asked, AskedKeys
from documentation.errors import DocumentationError
from documentation.scenarios import scenarios, stack_file
from engine.project import PROJECT_FILE, configuration, project_name
from stacks import settings
from stacks.keys import REQUIRED

_HEAD: Final = """\
# Settings

Written by `make docs` from `stacks/settings.py` and the stack files; not to be edited here.

`pulumi config set KEY VALUE` writes a setting into `Pulumi.STACK.yaml`, which has a comment for every
value. A secret is set with `pulumi config set --secret KEY`, which asks for it. Every problem of a
configuration is reported at once, before anything is created; an unknown key is one of them.
"""
# `name: text` of a docstring's Args, with the lines that belong to it.
_FIELD: Final = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
# "`key`, `key`. What they are.", up to the next of its kind.
_KEYS: Final = re.compile(r"((?:`[\w.:]+`, )*`[\w.:]+`)\. (.*?)(?= (?:`[\w.:]+`, )*`[\w.:]+`\. |$)")


def page() -> str:
    """The page, a table for each scenario.

    Raises:
        DocumentationError: When a setting is not described, or something is that is no setting.
    """
    return _HEAD + "".join(_scenario(name, stacks) for name, stacks in scenarios().items())


def asked(
    stack: str, overrides: Mapping[str, str] | None = None
) -> tuple[settings.Settings, dict[str, Asked]]:
    """The settings of a stack, and every key that they were read from.

    Args:
        stack: Name of the stack.
        overrides: Configuration values over the stack file's.

    Raises:
        SettingsError: For values that the program refuses.
    """
    found = configuration(stack, overrides or {})
    values = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in found.plain.items()
    }
    keys = AskedKeys(
        stack=stack, project=project_name(), values={**values, **found.secret}, secrets=set(found.secret)
    )
    return settings.read(keys, pulumi.Config(project_name())), keys.asked


def descriptions(read: settings.Settings) -> dict[str, str]:
    """What each key means, in the words of Pulumi.yaml and of the docstrings of the settings."""
    shared = yaml.safe_load(PROJECT_FILE.read_text())["config"]
    found = {key: entry["description"] for key, entry in shared.items() if "description" in entry}
    for kind in reversed(type(read).__mro__[:-1]):
        found |= _described(kind)
    return found


def _scenario(scenario: str, stacks: list[str]) -> str:
    read, keys = asked(scenario)
    described = descriptions(read)
    _check(scenario, keys, described)
    written = {stack: stack_file(stack) for stack in stacks}
    head = ["setting", "what it is", "values", "default", *(f"`Pulumi.{stack}.yaml`" for stack in stacks)]
    rows = [
        [f"`{key}`", described[key], each.values, _code(each.default)]
        + [_code(written[stack][key]) if key in written[stack] else "" for stack in stacks]
        for key, each in keys.items()
    ]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])
    return f"\n## {scenario}\n\nSee [its page](stacks/{scenario}.md).\n\n{lines}"


def _check(scenario: str, keys: Mapping[str, Asked], described: Mapping[str, str]) -> None:
    silent = [key for key in keys if key not in described]
    if silent:
        raise DocumentationError(
            f"{', '.join(silent)} of {scenario}: say what it is in the docstring of its dataclass in "
            "stacks/settings.py, as `field: `key`. What it is.`"
        )
    unknown = [key for key in described if key not in keys and ":" not in key]
    if unknown:
        raise DocumentationError(
            f"{', '.join(unknown)}: stacks/settings.py or Pulumi.yaml says what it is, and {scenario} has no "
            "such setting"
        )


def _described(kind: type) -> dict[str, str]:
    """What a dataclass says of keys; what a field's own dataclass says of single ones goes before."""
    found = dict(_entries(kind))
    for below in get_type_hints(kind).values():
        if is_dataclass(below) and isinstance(below, type):
            found |= dict(_entries(below))
    return found


def _entries(kind: type) -> Iterator[tuple[str, str]]:
    arguments = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")[2]
    for _, text in _FIELD.findall(arguments):
        for keys, meaning in _KEYS.findall(re.sub(r"\s+", " ", text)):
            for key in re.findall(r"`([\w.:]+)`", keys):
                yield key, meaning


def _code(value: Any) -> str:
    if value is REQUIRED:
        return "required"
    if value in (None, "", ()):
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`"
