"""Short digests of an object's content, for its name."""

import hashlib
import json
import re
from typing import Any

import pulumi


def fingerprint(*parts: Any) -> str:
    """Eight hex digits of what is known before anything is deployed.

    Outputs count by their place only: what they will be follows from other resources, and an
    unknown value must not make a name unknown.

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


def _placeholder(value: Any) -> str:
    if isinstance(value, pulumi.Output):
        return "output"
    raise TypeError(f"{type(value).__name__} has no fingerprint")
