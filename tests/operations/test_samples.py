"""What docs/operations.md and docs/operations-after.md show is what the commands print."""

import pytest

from tests.operations import samples


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_the_page_shows_what_the_command_prints(name: str) -> None:
    assert samples.shown()[name] == samples.printed(name), "python -m tests.operations.samples rewrites it"


def test_every_sample_is_in_a_page() -> None:
    assert set(samples.shown()) == set(samples.SAMPLES)
