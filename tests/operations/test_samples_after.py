"""What docs/operations-after.md shows is what the commands print."""

import pytest

from tests.operations import samples_after


@pytest.mark.parametrize("name", samples_after.SAMPLES)
def test_the_page_shows_what_the_command_prints(name: str) -> None:
    page = samples_after.shown(samples_after.PAGE.read_text())
    said = "python -m tests.operations.samples_after rewrites the page"
    assert page[name] == samples_after.printed(name), said


def test_every_sample_is_in_the_page() -> None:
    assert set(samples_after.shown(samples_after.PAGE.read_text())) == set(samples_after.SAMPLES)
