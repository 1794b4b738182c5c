"""The files of the Pulumi project: its name, its stacks."""

import difflib
from pathlib import Path
from typing import Final

import yaml

from engine.errors import EngineError

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT_FILE: Final = ROOT / "Pulumi.yaml"


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
