"""The values of a stack's file and of its recipe that a merge request changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import stacks
from engine.errors import EngineError
from engine.plan import changes
from engine.project import ROOT, known_stacks
from operations.previews import stack_inputs
from operations.previews.changes import Property
from operations.previews.redaction import Redaction
from stacks.settings.model import keys_of

_RECIPES: Final = "workloads/**/recipes"
_SECRET: Final = "[secret]"
_LONGEST: Final = 160


def setting_changes(stack: str, before: Path, after: Path = ROOT) -> tuple[Property, ...]:
    """The changed values, those of the stack file first. Empty for a stack that is new.

    Args:
        before: Checkout of the target branch.
        after: Checkout of the merge request.
    """
    if stack not in known_stacks(before):
        return ()
    try:
        old, new = (stack_inputs.stack_file(stack, checkout) for checkout in (before, after))
    except EngineError:
        return ()
    changed = [*_changed(old, new, "")]
    recipes = [_recipe(values, checkout) for values, checkout in ((old, before), (new, after))]
    # Another recipe changes every value, and its name is among the settings.
    if old.get("recipe") == new.get("recipe"):
        changed += _changed(*recipes, "recipe ")
    return tuple(changed)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[Property]:
    redaction = Redaction()
    for path, *values in changes(_with_secrets(old), _with_secrets(new)):
        shown_before, shown_after = (redaction.text(_text(value)) for value in values)
        yield Property(path=redaction.text(f"{prefix}{path}"), old=shown_before, new=shown_after)


@dataclass(frozen=True, repr=False)
class _Secret:
    """An encrypted value, which differs from another one and shows nothing of itself."""

    encrypted: str

    def __repr__(self) -> str:
        return _SECRET


def _with_secrets(tree: Any) -> Any:
    """A tree whose encrypted values, at any depth, are secrets."""
    if isinstance(tree, list):
        return [_with_secrets(item) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    if "secure" in tree:
        return _Secret(str(tree["secure"]))
    return {key: _with_secrets(value) for key, value in tree.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = " ".join(str(value).split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _recipe(values: Mapping[str, Any], checkout: Path) -> Mapping[str, Any]:
    """The recipe that a stack file names, or else its scenario's. Empty if it has none that can be read."""
    name = str(values.get("recipe") or _recipe_of(str(values.get("scenario", ""))))
    files = [checkout / name] if name.endswith(".yaml") else sorted(checkout.glob(f"{_RECIPES}/{name}.yaml"))
    for file in files:
        try:
            # Numbers stay as they are written.
            tree = yaml.load(file.read_text(), Loader=yaml.BaseLoader)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(tree, dict):
            return tree
    return {}


def _recipe_of(scenario: str) -> str:
    module = stacks.scenario_modules().get(scenario)
    field = keys_of(module.Settings).get("recipe") if module else None
    return str(field.default or "") if field else ""
