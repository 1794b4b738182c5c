"""The table of methods says what a recipe takes, and a recipe refuses what is not built."""

from typing import Any

import pytest

from docs_generator.methods import BUILT, MISSING, section
from engine.project import ROOT
from workloads.finetune.settings.recipe import load_recipe

RECIPE = "gemma-3-4b-sql"


def test_the_page_has_the_table() -> None:
    assert section() in (ROOT / "docs/training/methods.md").read_text()


@pytest.mark.parametrize("key", sorted({key for method in BUILT for key in method.keys}))
def test_what_is_built_has_a_key_in_the_recipe(key: str) -> None:
    tree: Any = load_recipe(RECIPE).to_dict() | {
        "lora": load_recipe(RECIPE, ["lora.rank=4"]).to_dict()["lora"]
    }
    for part in key.split("."):
        assert part in tree, key
        tree = tree[part]


@pytest.mark.parametrize(
    "method", [method for method in MISSING if method.recipe], ids=lambda method: method.name
)
def test_what_is_not_built_is_refused_before_anything_is_loaded(method: Any) -> None:
    with pytest.raises(
        Exception, match=r"is not built|unknown key|in a recipe|task preference needs|must be"
    ):
        load_recipe(RECIPE, [method.recipe, *(["lora=null"] if method.recipe == "task=preference" else [])])
