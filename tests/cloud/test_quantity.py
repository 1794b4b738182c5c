"""Quantities as Kubernetes spells them."""

import pytest

from cloud.quantity import canonical


@pytest.mark.parametrize(
    ("written", "spelling"),
    [
        ("1024Gi", "1Ti"),
        ("1Ti", "1Ti"),
        ("560Gi", "560Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("250m", "250m"),
        ("0.5", "500m"),
        ("2000", "2k"),
        ("160", "160"),
        ("0", "0"),
        ("1000M", "1G"),
        ("a lot", "a lot"),
    ],
)
def test_a_quantity_has_one_spelling(written: str, spelling: str) -> None:
    assert canonical(written) == spelling
