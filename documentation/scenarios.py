"""Which scenarios there are, and which stack files run them."""

from typing import Any

import yaml

from documentation.errors import DocumentationError
from engine.project import ROOT, known_stacks, project_name


def stack_file(stack: str) -> dict[str, Any]:
    """The committed configuration of a stack, by key; the project's own keys without its name."""
    values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text()).get("config") or {}
    return {key.removeprefix(f"{project_name()}:"): value for key, value in values.items()}


def scenarios() -> dict[str, list[str]]:
    """The stacks of every scenario; the first one has the scenario's name.

    Raises:
        DocumentationError: When a scenario has no stack of its name.
    """
    found: dict[str, list[str]] = {}
    for stack in known_stacks():
        found.setdefault(stack_file(stack)["scenario"], []).append(stack)
    for scenario, stacks in found.items():
        if scenario not in stacks:
            raise DocumentationError(
                f"scenario {scenario} has no Pulumi.{scenario}.yaml, which its page shows"
            )
        stacks.sort(key=lambda stack: (stack != scenario, stack))
    return found
