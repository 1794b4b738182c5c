"""What the bootstrap declares, made once for all of its tests."""

import pytest

from tests.bootstrap.declared import Declared, declare


@pytest.fixture(scope="session")
def declared() -> Declared:
    return declare()
