"""Which scenarios there are, and which stack files run them."""

from documentation.errors import DocumentationError
from operations.previews import stack_inputs


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
