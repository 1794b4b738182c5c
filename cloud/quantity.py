"""Kubernetes quantities."""

import re
from typing import Any, Final

_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_FACTORS: Final = {
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTP", start=1)},
}


def quantity(value: Any) -> float | None:
    """A quantity such as `500m` or `30Gi` as a number; None when there is none or it is not known."""
    match = _QUANTITY.fullmatch(str(value))
    if value is None or not match:
        return None
    return float(match[1]) * _FACTORS.get(match[2] or "", 1.0)
