"""The configuration of a rehearsed stack: its stack file, and fake values for what the file leaves out."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine import checkouts
from engine.errors import EngineError
from engine.project import ROOT, known_stacks, project_name, stack_file

# What a rehearsal has in place of an encrypted text inside a map.
_STAND_IN: Final = "encrypted-in-the-stack-file"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A complete configuration, by full key such as `gcp:project`.

    Attributes:
        plain: Values that are no secrets.
        secret: Values that are secrets.
        fake: Keys whose values the rehearsal has made up.
    """

    plain: dict[str, Any]
    secret: dict[str, str]
    fake: list[str]


def configuration(stack: str, overrides: Mapping[str, str], checkout: Path = ROOT) -> Configuration:
    """The values of the stack file, the overrides over them, and fake values for the keys that are missing.

    Args:
        stack: Name of the stack. A stack without a file has only overrides and fake values.
        overrides: Values by key. A key without a namespace belongs to the project.
        checkout: Folder of the stack file and the program. The program names the keys that are secrets, and
            those whose values only the stack's user knows.

    Raises:
        EngineError: If the program is too old for that, or the stack file cannot be read.
    """
    project = project_name()
    committed = _committed(stack, checkout)
    overridden = {key if ":" in key else f"{project}:{key}": value for key, value in overrides.items()}
    values = {**committed, **overridden}
    # The program reads texts. YAML has numbers and dates too.
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, default=str)
        for key, value in values.items()
    }
    with checkouts.using(checkout):
        rehearsed = getattr(importlib.import_module("stacks"), "rehearsed", None)
        if not rehearsed:
            raise EngineError("the program is too old: its stacks/ has no function `rehearsed`")
        secrets, fakes = rehearsed(stack, project, texts)
    values |= fakes
    # A committed secret in plain text stays plain, so that the program rejects it as it would in the cloud.
    # In another checkout it is allowed: the merge request that is previewed may remove it.
    plain = {key for key, value in committed.items() if not _has_stand_in(value)}
    revealed = plain - overridden.keys() if checkout == ROOT else set()
    hidden = [key for key in secrets if key in values and key not in revealed]
    return Configuration(
        plain={key: value for key, value in values.items() if key not in hidden},
        secret={key: texts.get(key, values[key]) for key in hidden},
        fake=list(fakes),
    )


def _committed(stack: str, checkout: Path) -> dict[str, Any]:
    """The values of the stack file. Encrypted ones are left out: a rehearsal has no key to read them.

    Inside a map they have a stand-in, so that the plan has a place for each.
    """
    values = stack_file(stack, checkout) if stack in known_stacks(checkout) else {}
    return {key: _with_stand_ins(value) for key, value in values.items() if not _is_encrypted(value)}


def _with_stand_ins(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _STAND_IN if _is_encrypted(inner) else _with_stand_ins(inner) for key, inner in value.items()
    }


def _has_stand_in(value: Any) -> bool:
    return value == _STAND_IN or (isinstance(value, dict) and any(map(_has_stand_in, value.values())))


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, dict) and "secure" in value
