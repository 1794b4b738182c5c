"""Short digests of an object's content, which become part of its name."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pulumi


@dataclass(frozen=True)
class PartlyKnown:
    """An output with a part that is known before anything is deployed.

    Args:
        value: The output.
        known: The known part, which counts in digests: a JSON-like value that may contain outputs.
    """

    value: pulumi.Output[Any]
    known: Any


def joined(*parts: Any) -> str | PartlyKnown:
    """The parts as one text. If some parts are outputs, the other parts still count in digests.

    Args:
        parts: Texts, numbers, outputs and values that are partly known.
    """
    if not any(isinstance(part, pulumi.Output | PartlyKnown) for part in parts):
        return "".join(map(str, parts))
    outputs = [pulumi.Output.from_input(resolved(part)).apply(str) for part in parts]
    return PartlyKnown(pulumi.Output.concat(*outputs), parts)


def resolved(tree: Any) -> Any:
    """A copy of a JSON-like value in which outputs replace the values that are partly known."""
    if isinstance(tree, PartlyKnown):
        return tree.value
    if isinstance(tree, dict):
        return {key: resolved(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolved(value) for value in tree]
    return tree


def outputs_in(tree: Any) -> Iterator[pulumi.Output[Any]]:
    """Every output in a JSON-like value, including those that are partly known."""
    if isinstance(tree, pulumi.Output):
        yield tree
    elif isinstance(tree, PartlyKnown):
        yield tree.value
    elif isinstance(tree, dict):
        yield from outputs_in(list(tree.values()))
    elif isinstance(tree, list):
        for value in tree:
            yield from outputs_in(value)


def fingerprint(*parts: Any) -> str:
    """A digest, in eight hex digits, of everything that is known before anything is deployed.

    An output counts only by its place. Its value follows from other resources, and an unknown value must not
    make a name unknown. A value that is partly known counts by its known part.

    Args:
        parts: JSON-like values that may contain outputs.
    """
    text = json.dumps(parts, sort_keys=True, default=_placeholder)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def hashed_name(prefix: str, maximum: int, *content: Any) -> str:
    """`prefix` and the content's fingerprint, as a name that every kind of object accepts (RFC 1035).

    Other characters in `prefix` become dashes, and a `prefix` that is too long is cut. The digest still tells
    two names apart.

    Args:
        prefix: For example the name of a recipe, `gemma-3.1-mine`.
        maximum: Most characters of the name.
        content: See `fingerprint`.
    """
    label = re.sub(r"[^a-z0-9]+", "-", prefix.lower()).strip("-")
    if not label[:1].isalpha():
        label = f"run-{label}"
    digest = fingerprint(*content)
    return f"{label[: maximum - len(digest) - 1].rstrip('-')}-{digest}"


def _placeholder(value: Any) -> Any:
    if isinstance(value, PartlyKnown):
        return value.known
    if isinstance(value, pulumi.Output):
        return "output"
    raise TypeError(f"{type(value).__name__} has no fingerprint")
