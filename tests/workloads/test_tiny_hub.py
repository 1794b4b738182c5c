"""The tiny models and data sets of `make rehearse-run`."""

import subprocess
import sys
from pathlib import Path

import yaml

from finetune.settings.recipe import RECIPES

ROOT = Path(__file__).parents[2]


def test_all_that_the_recipes_name_is_made_and_nothing_is_printed(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "rehearsal.running_pods.tiny", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout + process.stderr == ""
    recipes = [yaml.safe_load(file.read_text()) for file in RECIPES.glob("*.yaml")]
    assert len(recipes) > 3
    for recipe in recipes:
        assert (tmp_path / "models" / recipe["model"]["name"] / "config.json").exists()
        assert (tmp_path / "datasets" / recipe["data"]["name"] / "train.parquet").exists()
