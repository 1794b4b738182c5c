"""Kubernetes quantities."""

import re
from fractions import Fraction
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
    """A quantity such as `500m` or `30Gi` as a number, None if it is absent or unknown."""
    match = _QUANTITY.fullmatch(str(value))
    if value is None or not match:
        return None
    return float(match[1]) * _FACTORS.get(match[2] or "", 1.0)


def canonical(value: str) -> str:
    """A quantity as Kubernetes writes it: the largest suffix with which the number is whole.

    `1024Gi` is `1Ti`, `1.5Gi` is `1536Mi`, `1000m` is `1`. What is no quantity stays as it is.
    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    match = _QUANTITY.fullmatch(value)
    if not match:
        return value
    suffix = match[2] or ""
    number = Fraction(match[1]) * Fraction(_FACTORS.get(suffix, 1.0)).limit_denominator(1000)
    binary = suffix.endswith("i")
    base = 1024 if binary else 1000
    ladder = ["", *(f"{letter}{'i' if binary else ''}" for letter in ("K" if binary else "k", *"MGTP"))]
    if number.denominator > 1:
        return f"{int(number * 1000)}m" if (number * 1000).denominator == 1 else value
    power = 0
    while number and power < len(ladder) - 1 and number % base == 0:
        number, power = number / base, power + 1
    return f"{number}{ladder[power]}"
