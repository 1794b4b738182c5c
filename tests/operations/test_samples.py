"""What docs/operations.md shows is what the commands print."""

import pytest

from tests.operations import samples


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_the_page_shows_what_the_command_prints(name: str) -> None:
    page = samples.shown(samples.PAGE.read_text())
    assert page[name] == samples.printed(name), "python -m tests.operations.samples rewrites the page"


def test_every_sample_is_in_the_page() -> None:
    assert set(samples.shown(samples.PAGE.read_text())) == set(samples.SAMPLES)
