"""Short digests of an object's content, for its name."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pulumi


@dataclass(frozen=True)
class PartlyKnown:
    """An output of which something is known before anything is deployed.

    Args:
        value: The output.
        known: What is known of it, for digests: JSON-like, in which outputs may stand.
    """

    value: pulumi.Output[Any]
    known: Any


def joined(*parts: Any) -> str | PartlyKnown:
    """The text of all parts; where outputs are among them, their neighbours stay known.

    Args:
        parts: Texts, numbers, outputs and values that are partly known.
    """
    if not any(isinstance(part, pulumi.Output | PartlyKnown) for part in parts):
        return "".join(map(str, parts))
    outputs = [pulumi.Output.from_input(resolved(part)).apply(str) for part in parts]
    return PartlyKnown(pulumi.Output.concat(*outputs), parts)


def resolved(tree: Any) -> Any:
    """A JSON-like value in which outputs stand in the place of what is partly known."""
    if isinstance(tree, PartlyKnown):
        return tree.value
    if isinstance(tree, dict):
        return {key: resolved(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolved(value) for value in tree]
    return tree


def outputs_in(tree: Any) -> Iterator[pulumi.Output[Any]]:
    """Every output of a JSON-like value, those that are partly known too."""
    if isinstance(tree, pulumi.Output):
        yield tree
    elif isinstance(tree, PartlyKnown):
        yield tree.value
    elif isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from outputs_in(value)


def fingerprint(*parts: Any) -> str:
    """Eight hex digits of what is known before anything is deployed.

    Outputs count by their place only: what they will be follows from other resources, and an
    unknown value must not make a name unknown. What is partly known counts as far as it is known.

    Args:
        parts: JSON-like values, in which outputs may stand.
    """
    text = json.dumps(parts, sort_keys=True, default=_placeholder)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def hashed_name(prefix: str, maximum: int, *content: Any) -> str:
    """`prefix` and the content's fingerprint, as a name that every kind of object takes (RFC 1035).

    What it does not take of `prefix` becomes a dash, and what is too long goes: the digest tells the rest.

    Args:
        prefix: Such as a recipe's name, `gemma-3.1-mine`.
        maximum: The most characters that the name may have.
        content: As of `fingerprint`.
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
