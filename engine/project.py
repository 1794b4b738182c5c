"""The Pulumi project as the rehearsal sees it: which stacks there are, and with which configuration."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from engine.errors import EngineError

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT_FILE: Final = ROOT / "Pulumi.yaml"
_STANDIN_VALUES: Final = Path(__file__).with_name("standin_values.yaml")


@dataclass
class Configuration:
    """What a stack file holds once the rehearsal has filled it in.

    Args:
        plain: Values in plain text, by full key.
        secret: Values to be stored encrypted.
        stood_in: Keys whose values are stand-ins.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    secret: dict[str, str] = field(default_factory=dict)
    stood_in: list[str] = field(default_factory=list)


def known_stacks(checkout: Path = ROOT) -> list[str]:
    """Stacks with a committed stack file."""
    return sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in checkout.glob("Pulumi.*.yaml"))


def require_stack(stack: str, checkout: Path = ROOT) -> None:
    """Raises EngineError for a stack that has no stack file."""
    known = known_stacks(checkout)
    if stack not in known:
        raise EngineError(f"there is no stack {stack}; known: {', '.join(known) or 'none'}")


def project_name() -> str:
    """Name of the Pulumi project."""
    return yaml.safe_load(PROJECT_FILE.read_text())["name"]


def configuration(stack: str, overrides: Mapping[str, str], checkout: Path = ROOT) -> Configuration:
    """Committed stack file, then stand-in values for what it leaves out, then overrides.

    Args:
        stack: Name of the stack; one without a file has only stand-ins and overrides.
        overrides: Values by key; a key without a namespace is one of the project's.
        checkout: Where the stack file is.
    """
    standins: dict[str, dict[str, Any]] = yaml.safe_load(_STANDIN_VALUES.read_text())
    found = Configuration(plain=_committed(stack, checkout))
    for key, value in overrides.items():
        full = key if ":" in key else f"{project_name()}:{key}"
        _put(found, full, value, secret=bool(standins.get(full, {}).get("secret")))
    for key, standin in standins.items():
        if _wanted(standin, found.plain) and key not in found.plain and key not in found.secret:
            _put(found, key, standin["value"], secret=bool(standin.get("secret")))
            found.stood_in.append(key)
    return found


def _wanted(standin: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether `when` holds of the settings, and `unless` does not."""
    holds = {
        condition: all(settings.get(key) == value for key, value in standin[condition].items())
        for condition in ("when", "unless")
        if condition in standin
    }
    return holds.get("when", True) and not holds.get("unless", False)


def _committed(stack: str, checkout: Path) -> dict[str, Any]:
    """What the stack file says, but for encrypted values: those are not the rehearsal's to read."""
    path = checkout / f"Pulumi.{stack}.yaml"
    values = (yaml.safe_load(path.read_text()) or {}).get("config") or {} if path.exists() else {}
    return {
        key: value for key, value in values.items() if not (isinstance(value, dict) and "secure" in value)
    }


def parse_override(text: str) -> tuple[str, str]:
    """Splits `key=value`; the value may hold further equal signs."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise EngineError(f"--set {text}: write key=value")
    return key, value


def near(name: str, names: list[str]) -> str:
    """The end of a message about an unknown name: what comes close, or everything there is."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(sorted(names))}"


def _put(found: Configuration, key: str, value: str, *, secret: bool) -> None:
    found.plain.pop(key, None)
    (found.secret if secret else found.plain)[key] = value
