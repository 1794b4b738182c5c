"""Sizes that a node pool can have."""

from typing import Any

import pytest

from cloud.machines import MACHINES
from components.standard_cluster import NodePoolArgs


def test_a_fixed_number_that_does_not_spread_evenly_is_rejected() -> None:
    pool: dict[str, Any] = {"cluster": None, "machine": MACHINES["g2-standard-24"], "disk_gb": 200}
    assert NodePoolArgs(**pool, zones=["a", "b"], minimum=4, maximum=4).fixed_size
    assert not NodePoolArgs(**pool, zones=["a", "b"], minimum=0, maximum=3).fixed_size
    with pytest.raises(ValueError, match="3 nodes do not spread evenly over 2 zones"):
        NodePoolArgs(**pool, zones=["a", "b"], minimum=3, maximum=3)
