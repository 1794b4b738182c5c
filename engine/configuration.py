"""The configuration that a stack is rehearsed with: its stack file's, and what the file leaves out."""

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import checkouts
from engine.errors import EngineError
from engine.project import ROOT, known_stacks, project_name, stack_file


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What a stack file holds, by full key, once it has been filled in; some keys have fake values."""

    plain: dict[str, Any]
    secret: dict[str, str]
    fake: list[str]


def configuration(stack: str, overrides: Mapping[str, str], checkout: Path = ROOT) -> Configuration:
    """Committed stack file, then overrides, then fake values for what the program misses in both.

    Args:
        stack: Name of the stack; one without a file has only overrides and fake values.
        overrides: Values by key; a key without a namespace is one of the project's.
        checkout: Where stack file and program are. The program says which keys are secrets, and which values
            only the stack's user has.

    Raises:
        EngineError: When the program is too old to say that, or the stack file cannot be read.
    """
    project = project_name()
    committed = _committed(stack, checkout)
    given = {key if ":" in key else f"{project}:{key}": value for key, value in overrides.items()}
    values = {**committed, **given}
    # A date is written as it looks.
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
    # The base of a preview may have one: its merge request may be the one that removes it.
    revealed = committed.keys() - given.keys() if checkout == ROOT else set()
    hidden = [key for key in secrets if key in values and key not in revealed]
    return Configuration(
        plain={key: value for key, value in values.items() if key not in hidden},
        secret={key: values[key] for key in hidden},
        fake=list(fakes),
    )


def _committed(stack: str, checkout: Path) -> dict[str, Any]:
    """What the stack file says, but for encrypted values: those are not the rehearsal's to read."""
    values = stack_file(stack, checkout) if stack in known_stacks(checkout) else {}
    return {
        key: value for key, value in values.items() if not (isinstance(value, dict) and "secure" in value)
    }
