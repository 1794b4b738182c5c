"""Skips the tests that take minutes, unless `--slow` asks for them."""

import gc
from collections.abc import Iterator

import pytest

from tests import once


@pytest.fixture(scope="session", autouse=True)
def _shared_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    # Not the environment: a pytest that a test starts inherits that, and its folder would be one of all runs.
    if hasattr(request.config, "workerinput"):
        once.folder.append(tmp_path_factory.getbasetemp().parent)
    with once.kept_open:
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes, runs only with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips slow tests one by one, so that the summary lists them. The longest tests come first."""
    items.sort(key=lambda item: "test_faults.py" not in item.nodeid)
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --slow"))


def pytest_collection_finish() -> None:
    """Spares the tests the search for garbage among the modules and the tests, which stay."""
    gc.freeze()
    # Tests load more modules, which stay too.
    gc.set_threshold(700, 10, 100)
