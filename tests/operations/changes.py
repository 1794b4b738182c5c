"""How a project differs from the good one, and what preflight then says."""

from collections.abc import Callable
from typing import Any

from operations.findings import Level
from tests.operations.conftest import HF_TOKEN, Check
from tests.operations.good_project import GoodProject
from tests.operations.google_server import Fault, Page

Change = Callable[[GoodProject], object]


def nothing(project: GoodProject) -> None:
    """Leaves it as it must be."""


def failing(api: str, method: str, fault: Fault) -> Change:
    return lambda project: project.server.fail(api, method, fault)


def existing(api: str, method: str, **fields: Any) -> Change:
    return lambda project: project.server.plant(api, method, {"name": "it", **fields})


def answering(path: str, code: int, **headers: str) -> Change:
    page = Page(code=code, content={}, headers={key.replace("_", "-"): text for key, text in headers.items()})
    return lambda project: project.server.plant_page(path, page)


def saying(path: str, content: Any) -> Change:
    return lambda project: project.server.plant_page(path, Page(content=content))


def assert_told(
    stack: str, topic: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    """Asserts that one finding of this level on the topic has the words, and a remedy unless all is well."""
    plan = good.plan(*stack.split())
    change(good)
    results = [finding for finding in check(plan, topic) if finding.level is level]
    (finding,) = [item for item in results if words in f"{item.what}\n{item.remedy}"]
    # What is wrong is told alone.
    assert level in (Level.FINE, Level.UNKNOWN) or results == [finding]
    assert finding.remedy or level is Level.FINE
    assert not any(HF_TOKEN in item.what + item.remedy for item in results)
