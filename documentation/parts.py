"""What the generated pages are made of: tables, and the scenarios with the stack files that run them."""

from collections.abc import Iterable, Sequence

from operations.previews import stack_inputs


class DocumentationError(Exception):
    """A page cannot be generated; the message says what to add, and where."""


def table(*columns: str, rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, ["---"] * len(columns), *rows))


def scenarios() -> dict[str, list[str]]:
    """The stacks of every scenario; the first one has the scenario's name.

    Raises:
        DocumentationError: When a scenario has no stack of its name.
    """
    found: dict[str, list[str]] = {}
    for stack, scenario in stack_inputs.scenarios().items():
        found.setdefault(scenario, []).append(stack)
    for scenario, stacks in found.items():
        if scenario not in stacks:
            raise DocumentationError(
                f"scenario {scenario} has no Pulumi.{scenario}.yaml, which its page shows"
            )
        stacks.sort(key=lambda stack: (stack != scenario, stack))
    return found
