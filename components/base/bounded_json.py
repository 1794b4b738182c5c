"""Reads JSON from a bucket or a server, where somebody else may have written anything."""

import json
from typing import Any, Final

# A run's records, the configuration of a model and a line of a log have a thousandth of it.
_MOST_BYTES: Final = 2**23
# Trainers write a few levels. Far below the depth at which Python's functions end with an error.
_MOST_LEVELS: Final = 100
# Beyond every loss and gradient, which are 32-bit numbers. What counts in larger ones ends with an error.
_LARGEST: Final = 1e39


def parse(text: str | bytes) -> Any:
    """The value of a JSON text, in which every number and text can be shown. Numbers may be NaN or infinite.

    Raises:
        ValueError: If the text is none, has more than 8 MiB or 100 levels, or a number beyond 1e39 or half of
            a character.
    """
    if len(text) > _MOST_BYTES:
        raise ValueError("more than 8 MiB")
    try:
        tree = json.loads(text)
    except RecursionError:
        raise ValueError("too many levels") from None
    _check(tree, _MOST_LEVELS)
    return tree


def _check(tree: Any, levels: int) -> None:
    if isinstance(tree, str):
        # Half of a character is a UnicodeEncodeError, which is a ValueError.
        tree.encode()
    elif isinstance(tree, int | float):
        if _LARGEST < abs(tree) < float("inf"):
            raise ValueError("a number beyond 1e39")
    elif isinstance(tree, dict | list):
        if not levels:
            raise ValueError("too many levels")
        for part in (*tree, *tree.values()) if isinstance(tree, dict) else tree:
            _check(part, levels - 1)
