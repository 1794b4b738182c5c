"""Looking up values in trees of inputs."""

from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.wire import is_unknown


def at(node: Any, path: str) -> Iterator[Any]:
    """The values at a path such as `template.containers[].image`; `[]` steps through a list."""
    step, _, rest = path.partition(".")
    if not isinstance(node, Mapping):
        return
    found = node.get(step.removesuffix("[]"))
    for value in found if step.endswith("[]") and isinstance(found, list) else [found]:
        if rest:
            yield from at(value, rest)
        elif value is not None:
            yield value


def texts(node: Any, path: str) -> Iterator[str]:
    """The texts at a path that are known."""
    return (value for value in at(node, path) if isinstance(value, str) and not is_unknown(value))


def given(node: Any, path: str) -> bool:
    """Whether there is a value at a path, known or not; false, zero and nothing count as none."""
    return any(value not in (False, 0, "", [], {}) for value in at(node, path))
