"""One recipe shape for models of many families. Their losses equal the losses of each row alone."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_families import END_OF_TURN, FAMILIES, make_family, make_family_with_pictures

from finetune.__main__ import main
from finetune.dry_run import make_plan
from finetune.model.loading import as_model_allows, load_processor
from finetune.rows.data import load_conversations, settle_for
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import Recipe, load_recipe
from rehearsal.running_pods.tiny import make_recipe, make_trainer
from shared.errors import InputError

ROOT = Path(__file__).parents[2]
QUICK = ["Llama", "Qwen 3", "Qwen3-VL", "gpt-oss", "Gemma 2", "Gemma 4", "Gemma 4 31B", "Qwen 3.5"]
# Why rows of a family do not share a pack.
ALONE = {
    "gpt-oss": "GptOssAttention attends in a way that packs do not know (s_aux)",
    "Gemma 2": "Gemma2Attention attends in a way that packs do not know (softcap)",
    "Qwen 3.5": "Qwen3_5ForConditionalGeneration takes no packs: ValueError: `chunk_gated_delta_rule` can't",
    "LFM2": "Lfm2ForCausalLM computes a row in a pack otherwise than alone",
    "Qwen3-Next": "Qwen3NextForCausalLM takes no packs: ValueError: `chunk_gated_delta_rule` can't",
}
OFF = "packing and the shared prefix are off, as with training.packing: false, and batch_size counts rows: "


def recipe_of(model: Path, tiny: Path, tmp_path: Path, *more: str) -> Recipe:
    """A packed recipe of twelve rows of text, and eight to evaluate."""
    rows = {"name": str(tiny / "emoji"), "rows": 12, "test_rows": 8}
    training = {"packing": True, "max_length": 400, "gradient_checkpointing": False, "loader_processes": 0}
    recipe = {
        "model": {"name": str(model), "precision": "fp32"},
        "lora": {"rank": 4},
        "data": {**rows, "reply": "emoji", "prompt": "Translate to emoji: {text}"},
        "training": {**training, "learning_rate": 0.01, "log_every_steps": 1},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return load_recipe(str(tmp_path / "recipe.yaml"), more)


def loss_of_rows_one_by_one(recipe: Recipe) -> float:
    """The average over the reply tokens of the test rows, with the model's own attention."""
    import torch
    from transformers import AutoConfig

    from finetune.model.families import auto_class

    config = AutoConfig.from_pretrained(recipe.model.name)
    model = auto_class(config).from_pretrained(recipe.model.name, attn_implementation="eager")
    _, test_rows = load_conversations(recipe.data, 42)
    assert test_rows is not None
    losses = []
    tokenizer = load_processor(recipe.model.name, pictures=False)
    settle_for(recipe.data, test_rows, tokenizer)
    for row in to_tokens(test_rows, tokenizer, None).with_format("torch"):
        labels = row["labels"][1:].long()
        trained = labels != NOT_TRAINED
        with torch.no_grad():
            scores = model(row["input_ids"][None]).logits[0, :-1]
        losses.append(torch.nn.functional.cross_entropy(scores[trained], labels[trained], reduction="none"))
    return float(torch.cat(losses).mean())


@pytest.mark.parametrize(
    "family",
    [family if family in QUICK else pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES],
)
def test_a_family_has_the_losses_of_its_rows_one_by_one_packed_or_told_why_not(
    family: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_family(family, tmp_path / "model")
    recipe = recipe_of(tmp_path / "model", tiny, tmp_path)
    capsys.readouterr()
    allowed = as_model_allows(recipe)
    out = capsys.readouterr().out
    assert out.startswith(f"{OFF}{ALONE[family]}") if family in ALONE else not out
    assert allowed.training.packing == (family not in ALONE)
    assert make_plan(recipe, processes=1).sequences == 12 if family in ALONE else allowed == recipe
    trainer = make_trainer(allowed, tmp_path)
    assert len(trainer.train_dataset) == 12 if family in ALONE else len(trainer.train_dataset) < 4
    before = trainer.evaluate()["eval_loss"]
    assert before == pytest.approx(loss_of_rows_one_by_one(recipe), abs=2e-6)
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before - 0.01


@pytest.mark.parametrize("family", ["gpt-oss", "Gemma 2"])
def test_a_pack_refuses_an_attention_that_it_does_not_compute(
    family: str, tiny: Path, tmp_path: Path
) -> None:
    make_family(family, tmp_path / "model")
    trainer: Any = make_trainer(recipe_of(tmp_path / "model", tiny, tmp_path), tmp_path)
    argument = {"gpt-oss": "s_aux", "Gemma 2": "softcap"}[family]
    with pytest.raises(InputError, match=rf"packs do not know \({argument}\); set training.packing to false"):
        trainer.evaluate()


# Runs of the published models of the other two are in test_published.py.
@pytest.mark.parametrize(
    "family",
    [*(pytest.param(family, marks=pytest.mark.slow) for family in ("gpt-oss", "Qwen 3.5")), "Gemma 4"],
)
def test_a_run_of_a_family_answers_and_writes_a_whole_model(
    family: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with its parts for pictures and sound, which no row of text uses."""
    from safetensors import safe_open

    make_family(family, tmp_path / "model")
    recipe_of(tmp_path / "model", tiny, tmp_path)
    sets = [
        "training.result=model",
        "evaluation.rows=2",
        "evaluation.max_new_tokens=4",
        "model.precision=bf16",
    ]
    command = ["local", f"--recipe={tmp_path}/recipe.yaml", f"--storage={tmp_path}/store", "--run=mine"]
    assert main([*command, *(f"--set={setting}" for setting in sets)]) == 0
    off = capsys.readouterr().out.count(OFF)
    assert off == (1 if family in ALONE else 0)
    answers = (tmp_path / "store/mine/answers.jsonl").read_text().splitlines()
    assert len(answers) == 2
    names = []
    for folder in (tmp_path / "model", tmp_path / "store/mine/model"):
        with safe_open(folder / "model.safetensors", "pt") as weights:
            names.append(sorted(weights.keys()))
    assert names[0] == names[1]
    part = {"Qwen 3.5": "visual", "Gemma 4": "audio_tower"}.get(family)
    assert not part or any(part in name for name in names[0])


def test_an_adapter_is_not_put_on_what_is_no_single_layer(tiny: Path, tmp_path: Path) -> None:
    make_family("Gemma 4", tmp_path / "model")
    recipe = recipe_of(tmp_path / "model", tiny, tmp_path, r"lora.target_modules=.*\.q_proj")
    problem = r"matches model\.vision_tower\..*, which is not one layer \(Gemma4ClippableLinear\)"
    with pytest.raises(InputError, match=problem):
        make_trainer(recipe, tmp_path)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"config.json": '{"model_type": "qwen3"}'}, "no file named"),
        ({"config.json": '{"model_type": "t5", "architectures": ["T5Model"]}'}, "T5Config"),
        ({"config.json": '{"model_type": "tomorrow"}'}, "tomorrow"),
    ],
    ids=["no-weights", "no-language-model", "unknown"],
)
def test_a_model_that_transformers_cannot_load_is_told_in_one_line(
    files: dict[str, str], problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_family("Qwen 3", tmp_path / "model")
    (tmp_path / "model/model.safetensors").unlink()
    config = (tmp_path / "model/config.json").read_text()
    for name, text in files.items():
        (tmp_path / "model" / name).write_text(config if "qwen3" in text else text)
    recipe_of(tmp_path / "model", tiny, tmp_path)
    command = ["local", f"--recipe={tmp_path}/recipe.yaml", f"--storage={tmp_path}/store", "--run=mine"]
    assert main(command) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: model {tmp_path}/model cannot be loaded as a language model")
    assert problem in error


def test_the_page_on_own_models_leads_to_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/training/own-model.md").read_text()
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my-model.yaml").write_text(recipe)
    (tmp_path / "my-rows.jsonl").write_text((ROOT / "examples/own-data/my-rows.jsonl").read_text())
    make_family("Qwen 3", tmp_path / "model")
    sets = [f"--set=model.name={tmp_path}/model", "--set=model.revision="]
    assert main(["local", f"--recipe={tmp_path}/my-model.yaml", *sets, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "rows       20 of " in printed and "packed to 1024 tokens" in printed


@pytest.mark.parametrize("family", ["Qwen3-VL", "SmolVLM", pytest.param("Qwen 3.5", marks=pytest.mark.slow)])
def test_rows_with_pictures_train_other_models_than_gemma(family: str, tiny: Path, tmp_path: Path) -> None:
    make_family_with_pictures(family, tmp_path / "model")
    path = make_recipe(tmp_path / "recipe.yaml", tiny)
    layers = r".*(language|text)_model\.layers\..*proj"
    sets = [f"model.name={tmp_path}/model", f"lora.target_modules={layers}", "training.epochs=2"]
    recipe = load_recipe(str(path), sets)
    plan = make_plan(recipe, processes=1)
    trainer: Any = make_trainer(as_model_allows(recipe), tmp_path)
    batches = [*trainer.get_train_dataloader()]
    assert plan.reply_tokens == sum(int((batch["labels"] != NOT_TRAINED).sum()) for batch in batches)
    labels = batches[0]["labels"]
    replies = [trainer.processing_class.tokenizer.decode(row[row != NOT_TRAINED]) for row in labels]
    end = END_OF_TURN[family]
    assert all(reply.count(end) == 1 and reply.endswith(end) for reply in replies)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 16 and sum(losses[8:]) < sum(losses[:8])


def test_pictures_for_a_model_that_takes_none_are_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_family("Llama", tmp_path / "model")
    path = make_recipe(tmp_path / "recipe.yaml", tiny)
    command = ["local", f"--recipe={path}", f"--storage={tmp_path}/store", "--run=mine"]
    for more in ([], ["--dry-run"]):
        assert main([*command, f"--set=model.name={tmp_path}/model", *more]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error == f"error: model {tmp_path}/model takes no pictures, and data.image names some"
