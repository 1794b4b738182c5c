"""Short digests that put what an object is made of into its name."""

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


def _placeholder(value: Any) -> str:
    if isinstance(value, pulumi.Output):
        return "output"
    raise TypeError(f"{type(value).__name__} has no fingerprint")
