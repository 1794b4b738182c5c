"""--dry-run prints what the run then does, and leaves no files."""

import json
from pathlib import Path
from typing import Any

import pytest
from outcomes import losses

from finetune.__main__ import main
from finetune.dry_run import make_plan
from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import TOKENS_PER_IMAGE, make_recipe
from rehearsal.stand_ins.hub import Hub


@pytest.mark.parametrize("run_name", ["emoji_run", "sql_run"])
def test_the_plan_of_a_text_run_is_what_the_run_did(run_name: str, request: pytest.FixtureRequest) -> None:
    from safetensors import safe_open

    run: Path = request.getfixturevalue(run_name)
    plan = make_plan(load_recipe(str(run.parent / "recipe.yaml")), processes=1)
    assert plan.steps == plan.sequences == len(losses(run))
    assert (plan.rows, plan.test_rows) == (24, 6)
    assert 0 < plan.reply_tokens < plan.tokens
    assert 0 < plan.prefix < plan.tokens / 24
    with safe_open(run / "adapter" / "adapter_model.safetensors", "pt") as adapter:
        assert plan.trainable == sum(adapter.get_tensor(name).numel() for name in list(adapter.keys()))


def test_the_plan_of_a_run_with_pictures_is_what_the_trainer_has(tiny: Path, tmp_path: Path) -> None:
    from finetune.rows.data import load_conversations
    from finetune.run.training import build_trainer, sft_arguments

    recipe = load_recipe(str(make_recipe(tmp_path / "recipe.yaml", tiny)))
    plan = make_plan(recipe, processes=1)
    rows, _ = load_conversations(recipe.data, 42)
    trainer: Any = build_trainer(recipe, sft_arguments(recipe, tmp_path), rows, None, [])
    batches = list(trainer.get_train_dataloader())
    assert plan.steps == len(batches) == 8
    assert plan.tokens == sum(int(batch["attention_mask"].sum()) for batch in batches)
    assert plan.reply_tokens == sum(int((batch["labels"] != -100).sum()) for batch in batches)
    assert f"<image_soft_token>[{TOKENS_PER_IMAGE} times]" in plan.shown[0]
    assert [line.split('"')[0].strip() for line in plan.shown] == ["prompt", "trained"]
    assert plan.parameters == sum(weight.numel() for weight in trainer.model.parameters())


def test_steps_follow_from_processes_batch_and_accumulation(tiny: Path, tmp_path: Path) -> None:
    recipe = load_recipe(
        str(make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")),
        ["training.packing=false", "training.accumulation_steps=3", "training.epochs=2"],
    )
    # 24 rows, 2 x 2 at once: 6 batches, 2 steps an epoch.
    assert make_plan(recipe, processes=2).steps == 4


def test_a_dry_run_prints_the_plan_and_writes_nothing(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    store = tmp_path / "store"
    command = ["local", "--recipe", str(recipe), "--storage", str(store), "--run", "mine", "--dry-run"]
    assert main([*command, "--set", "training.max_length=60"]) == 0
    printed = capsys.readouterr().out
    for figure in (
        "trainable  18,432 parameters",
        "6 held out",
        " of 24 rows are left out: longer than training.max_length, 60 tokens",
        "packed to 60 tokens, the 25 ",
        '  prompt  "<bos><start_of_turn>user\\nTranslate to emoji: ',
        '\n  trained "',
        f"\ntry it on this CPU: python -m trial --recipe {recipe} --set training.max_length=60\n",
    ):
        assert figure in printed
    assert not store.exists()


def test_a_dry_run_needs_no_weights(tiny: Path, tmp_path: Path) -> None:
    """Those of the 12B model are 24 GB."""
    model = tmp_path / "model"
    model.mkdir()
    for file in (tiny / "text-model").iterdir():
        if file.suffix != ".safetensors":
            (model / file.name).symlink_to(file)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    assert main(["local", "--recipe", str(recipe), "--set", f"model.name={model}", "--dry-run"]) == 0


def test_a_dry_run_asks_the_hub_for_no_weights_and_says_what_it_has_read(
    hub: Hub, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = hub.model("me/dry").push(tiny / "text-model")
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    assert main(["local", "--recipe", str(recipe), "--set", "model.name=me/dry", "--dry-run"]) == 0
    assert f"model      me/dry at {commit}, " in capsys.readouterr().out
    files = {request.rsplit("/")[-1] for request in hub.requests}
    assert "config.json" in files
    assert "model.safetensors" not in files


def test_the_recipe_beside_a_run_is_the_overridden_one(tiny: Path, tmp_path: Path) -> None:
    from finetune.storage.checkpoint import RunFolder

    local = ["model.name=/model", "data.name=/data"]
    recipe = load_recipe("gemma-3-1b-emoji", ["training.epochs=7", *local])
    RunFolder(str(tmp_path), "mine").claim(recipe, 1)
    assert json.loads((tmp_path / "mine" / "run.json").read_text())["recipe"]["training"]["epochs"] == 7
