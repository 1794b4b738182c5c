"""What docs/operations.md and docs/operations-after.md show is what the commands print."""

import pytest

from tests.operations import samples


# The id names the stack of a sample: without that stack the page has no such sample.
@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"{name}-{sample.stack}") for name, sample in samples.SAMPLES.items()]
)
def test_the_page_shows_what_the_command_prints(name: str) -> None:
    assert samples.shown()[name] == samples.printed(name), "python -m tests.operations.samples rewrites it"


def test_every_sample_is_in_a_page() -> None:
    assert set(samples.shown()) == set(samples.SAMPLES)
