"""Looks up values in a resource's inputs, some of which are not known yet.

A few agreed texts stand for unknown values. Sources: `pulumi.runtime.rpc` and the engine's
`resource/plugin/rpc.go`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pulumi.runtime import rpc

UNKNOWN: Final = rpc.UNKNOWN
# What the engine writes for an unknown text, truth value, number, array, asset, archive, object.
UNKNOWNS: Final = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


def is_unknown(value: object) -> bool:
    """Whether a value is still to be computed."""
    return isinstance(value, str) and value in UNKNOWNS


def merged(computed: Any, stated: Any) -> Any:
    """The stated values, and the computed ones that they leave out, in blocks at any depth."""
    if not (isinstance(computed, Mapping) and isinstance(stated, Mapping)):
        return stated
    return {**computed, **{key: merged(computed.get(key), value) for key, value in stated.items()}}


def at(node: Any, path: str) -> Iterator[Any]:
    """The values at a path such as `template.containers[].image`. `[]` means all of a list, `[0]` one."""
    step, _, rest = path.partition(".")
    if not isinstance(node, Mapping):
        return
    name, listed, index = step.removesuffix("]").partition("[")
    values = [node.get(name)]
    if listed and isinstance(values[0], list):
        values = values[0][int(index) :][:1] if index else values[0]
    for value in values:
        if rest:
            yield from at(value, rest)
        elif value is not None:
            yield value


def texts(node: Any, path: str) -> Iterator[str]:
    """The known texts at a path."""
    return (value for value in at(node, path) if isinstance(value, str) and not is_unknown(value))


def numbers(node: Any, path: str) -> Iterator[float]:
    """The known numbers at a path."""
    values = at(node, path)
    return (value for value in values if isinstance(value, int | float) and not isinstance(value, bool))


def objects(node: Any, path: str) -> Iterator[Mapping[str, Any]]:
    """The known objects at a path."""
    return (value for value in at(node, path) if isinstance(value, Mapping))


def is_set(node: Any, path: str) -> bool:
    """Whether there is a value at a path, known or not. False, zero and empty values do not count."""
    return any(value not in (False, 0, "", [], {}) for value in at(node, path))
