"""What several tests of the rehearsal start from."""

from collections.abc import Iterator

import pytest

from tests.neutral_stacks import neutral_stacks


@pytest.fixture(autouse=True)
def _neutral_stacks() -> Iterator[None]:
    """The tests' own stacks are among the checkout's."""
    with neutral_stacks():
        yield
