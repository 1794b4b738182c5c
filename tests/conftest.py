"""Tests that take minutes are skipped by name unless they are asked for."""

import os
from collections.abc import Iterator

import pytest

from tests import once


@pytest.fixture(scope="session", autouse=True)
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" in os.environ:
        once.folder.append(tmp_path_factory.getbasetemp().parent)
    with once.kept_open:
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run what takes minutes, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; run with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests by name, so that the summary lists them; the longest come first."""
    items.sort(key=lambda item: "test_faults.py" not in item.nodeid)
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: --slow"))
