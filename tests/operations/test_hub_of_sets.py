"""What preflight asks the Hub about a recipe with several data sets."""

from types import SimpleNamespace
from typing import Any

from finetune.settings.sections import Data
from operations.checks.hub import repositories

COMMITS = ("a" * 40, "b" * 40)


def test_each_data_set_of_a_recipe_is_asked_for() -> None:
    """One of them may have a licence that nobody has accepted."""
    names = ("team/first", "team/second")
    sets = [{"name": name, "revision": commit} for name, commit in zip(names, COMMITS, strict=True)]
    data = Data.model_validate({"messages": "messages", "sets": sets})
    plan: Any = SimpleNamespace(recipe=SimpleNamespace(sources={}, data=data), resources=())
    plan.of_type = lambda *_: []
    assert repositories(plan) == [
        ("dataset", name, commit) for name, commit in zip(names, COMMITS, strict=True)
    ]
