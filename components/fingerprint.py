"""Short digests of an object's content, for its name."""

import hashlib
import json
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
    """`prefix` and the content's fingerprint.

    Raises:
        ValueError: When the name would be longer than `maximum`.
    """
    name = f"{prefix}-{fingerprint(*content)}"
    if len(name) > maximum:
        raise ValueError(f"{name} has {len(name)} characters and may have {maximum}; shorten {prefix}")
    return name


def _placeholder(value: Any) -> str:
    if isinstance(value, pulumi.Output):
        return "output"
    raise TypeError(f"{type(value).__name__} has no fingerprint")
