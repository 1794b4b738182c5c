"""Building blocks of the generated pages: tables, and the scenarios with their stack files."""

from collections.abc import Iterable, Sequence

from operations.previews import stack_inputs


class DocumentationError(Exception):
    """A page cannot be generated. The message says what to add, and where."""


def table(*columns: str, rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, ["---"] * len(columns), *rows))


def scenarios() -> dict[str, list[str]]:
    """The stacks of every scenario. The first stack of each has the scenario's name.

    Raises:
        DocumentationError: If a scenario has no stack of its name.
    """
    stacks_of: dict[str, list[str]] = {}
    for stack, scenario in stack_inputs.scenarios().items():
        stacks_of.setdefault(scenario, []).append(stack)
    for scenario, stacks in stacks_of.items():
        if scenario not in stacks:
            raise DocumentationError(
                f"scenario {scenario} has no Pulumi.{scenario}.yaml, which its page shows"
            )
        stacks.sort(key=lambda stack: (stack != scenario, stack))
    return stacks_of
