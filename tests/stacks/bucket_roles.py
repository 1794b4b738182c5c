"""What the conditions of a bucket's bindings admit."""

from types import SimpleNamespace
from typing import Any, Final

# Kinds of resources in a bucket.
KINDS: Final = ("objects", "folders")
# What the Common Expression Language writes in another way than Python.
_AS_PYTHON: Final = {"&&": "and", "||": "or", "!": "not ", ".startsWith(": ".startswith("}


def holds(binding: dict[str, Any], bucket: str, name: str, kind: str = "objects") -> bool:
    """Whether a binding on a bucket holds for an object, or with `kind` `folders` for a real folder."""
    expression = (binding.get("condition") or {}).get("expression", "True")
    for theirs, ours in _AS_PYTHON.items():
        expression = expression.replace(theirs, ours)
    resource = SimpleNamespace(name=f"projects/_/buckets/{bucket}/{kind}/{name}")
    return bool(eval(expression, {"resource": resource}))
