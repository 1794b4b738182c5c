"""What job and service on Cloud Run have in common."""

import pytest

from components.cloud_run import L4Machine


@pytest.mark.parametrize(
    ("cpu", "memory", "message"),
    [(2, 16, "2 CPUs: Cloud Run has an L4 with"), (4, 8, "8 GiB of memory: Cloud Run has an L4 with")],
)
def test_a_machine_that_has_no_l4_is_rejected(cpu: int, memory: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        L4Machine(cpu=cpu, memory_gib=memory)
