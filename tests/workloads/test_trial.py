"""A trial passes a recipe that would end well, and says in one line why another would not."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from trial_command import Ended

from finetune.storage.checkpoint import RunFolder, checkpoint_name
from rehearsal.running_pods.tiny import STAND_INS, make_base_models, make_recipe, make_tokenizer
from rehearsal.running_pods.tiny_gemma_4 import make_gemma_4
from rehearsal.stand_ins.hub import Hub
from trial.__main__ import main

ROOT = Path(__file__).parents[2]
UNSEEN = "a trial cannot see: several processes, GPU kernels, the real weights, memory, speed"
TEXT = {"reply": "emoji", "prompt": "Translate to emoji: {text}"}


def recipe_of(tmp_path: Path, published: Path, /, **sections: Any) -> Path:
    """A recipe for rows of text, with other `sections` in place of its, key by key."""
    recipe: dict[str, Any] = {
        "model": {"name": str(published)},
        "lora": {},
        "data": {"name": str(published.parent / "emoji"), "rows": 24, "test_rows": 4, **TEXT},
        "training": {"packing": True, "max_length": 400, "result": "model"},
        "evaluation": {"rows": 4},
    }
    for name, section in sections.items():
        recipe[name] |= section
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


# One recipe of each class of models, and one with pictures.
QUICK = ("gemma-2-2b-sql", "gemma-3-4b-vision", "gemma-4-31b-text-to-sql")


def edited(tiny: Path, tmp_path: Path, file: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of the text model in which a JSON file has changed, beside the rows."""
    (tmp_path / "emoji").symlink_to(tiny / "emoji")
    folder = tmp_path / "changed"
    shutil.copytree(tiny / "text-model", folder)
    tree = json.loads((folder / file).read_text())
    change(tree)
    (folder / file).write_text(json.dumps(tree))
    return folder


@pytest.mark.parametrize(
    "shipped", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in STAND_INS]
)
def test_a_shipped_recipe_passes(
    shipped: str, tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    """Its model and its rows are tiny ones in the form of the published ones."""
    stand_in = STAND_INS[shipped][0]
    if stand_in.startswith("gemma-4") and not (tiny / stand_in).exists():
        make_gemma_4(stand_in.removeprefix("gemma-4-").upper(), make_tokenizer(), tiny / stand_in)
    if not (tiny / stand_in).exists():
        make_base_models(tiny)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, shipped)
    judge = yaml.safe_load((ROOT / f"workloads/finetune/recipes/{shipped}.yaml").read_text())["evaluation"]
    options = [f"--set=evaluation.{key}={value}" for key, value in judge.items()]
    ended = tried(recipe, "--set=data.test_rows=6", *options)
    assert ended.code == 0, ended.err
    assert f"{recipe} passed its trial" in ended.out and ended.out.endswith(f"{UNSEEN}\n")


def test_a_recipe_of_plain_texts_passes(tiny: Path, tmp_path: Path, tried: Callable[..., Ended]) -> None:
    """A base model has no chat template, and no answer is asked of it."""
    if not (tiny / "gemma-2-2b").exists():
        make_base_models(tiny)
    texts = {"name": str(tiny / "emoji"), "text": "text", "rows": 24, "test_rows": 4}
    recipe = recipe_of(tmp_path, tiny / "gemma-2-2b")
    tree = yaml.safe_load(recipe.read_text()) | {"data": texts}
    del tree["evaluation"]
    recipe.write_text(yaml.safe_dump(tree))
    ended = tried(recipe)
    assert ended.code == 0, ended.err
    assert f"{recipe} passed its trial" in ended.out


# Trials one after the other in a process that has not trained. Each argument has the options of one.
TRIALS = """
import sys
from trial.__main__ import main
for options in sys.argv[1:]:
    assert main(options.split()) == 0
    print("END")
"""


def test_a_trial_that_passed_is_not_made_again_until_something_changes(
    hub: Hub, tiny: Path, tmp_path: Path
) -> None:
    hub.model("me/tried").push(tiny / "text-model")
    hub.data_set("me/rows").push(tiny / "emoji")
    names = {"model": {"name": "me/tried"}, "data": {"name": "me/rows"}}
    recipe = recipe_of(tmp_path, tiny / "text-model", **names)
    options = f"--recipe={recipe} --storage={tmp_path}/store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workloads"), "XDG_CACHE_HOME": str(tmp_path)}

    def tries(*more: str) -> list[bool]:
        """Which of the trials with more options are made."""
        program = [sys.executable, "-c", TRIALS, *(f"{options} {words}" for words in more)]
        ended = subprocess.run(program, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 0, ended.stderr
        *outputs, _ = ended.stdout.split("END\n")
        assert all(UNSEEN in out.splitlines()[-1] for out in outputs)
        return [f"{recipe} has passed its trial at " not in out for out in outputs]

    assert tries("", "", "--set=lora.rank=4", "--set=lora.rank=4") == [True, False, True, False]
    hub.model("me/tried").push(
        edited(tiny, tmp_path, "generation_config.json", lambda tree: tree.update(top_k=9))
    )
    assert tries("") == [True]
    assert len([*(tmp_path / "store/trials").glob("*.json")]) == 3
    # No weights are asked for.
    assert not any("safetensors" in request for request in hub.requests)


def test_a_run_that_has_a_checkpoint_or_is_finished_is_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trial of this recipe would end at once, because there is no such model."""
    recipe = recipe_of(tmp_path, tmp_path / "absent")
    options = [f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine"]
    assert main(options) == 2
    weights = tmp_path / "adapter.safetensors"
    weights.write_text("weights")
    run = RunFolder(f"{tmp_path}/store", "mine")
    run.save_checkpoint(tmp_path, checkpoint_name(20))
    assert main(options) == 0
    assert "run mine has a checkpoint of step 20, so" in capsys.readouterr().out
    run.folder.write_text("COMPLETE.json", '{"adapter": {}}')
    assert main(options) == 0
    assert "run mine is finished, so" in capsys.readouterr().out
    assert main([*options, "--run=another"]) == 2


def _pattern(pattern: str, **more: Any) -> dict[str, Any]:
    return {"lora": {"target_modules": pattern}, **more}


# By what is wrong with a recipe: its sections, and parts of the line.
BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "key": ({"training": {"epoch": 1}}, ("unknown key training.epoch (did you mean epochs?)",)),
    "column": ({"data": {"reply": "smiley"}}, ("has no column smiley; it has text, emoji, topic",)),
    "length": ({"training": {"max_length": 4}}, ("all 24 rows are longer than training.max_length",)),
    "layers": (_pattern("no_such_layer"), ("lora.target_modules no_such_layer matches no module",)),
    "setting of trl": ({"training": {"trl": {"no_such": 1}}}, ("training.trl: ", "no_such")),
    "value of trl": ({"training": {"trl": {"neftune_noise_alpha": "x"}}}, ("training.trl: ", "neftune")),
    "rows that are left": ({"data": {"rows": 1000}}, ("usable rows", "the recipe takes 1004")),
    "no such model": ({"model": {"name": "/absent"}}, ("model /absent is not a directory",)),
    "tied embedding": (_pattern(".*(embed_tokens|q_proj)"), ("lora.target_modules", "training.result")),
}


@pytest.mark.parametrize("case", BAD)
def test_a_recipe_that_would_fail_ends_with_one_line(
    case: str, tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    sections, parts = BAD[case]
    ended = tried(recipe_of(tmp_path, tiny / "text-model", **sections))
    assert ended.code == 2, ended.err
    assert all(part in ended.line() for part in parts), ended.line()
    assert not (tmp_path / "cache/finetune/trials").exists()


def test_an_adapter_where_no_text_goes_is_found(
    tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    ended = tried(recipe_of(tmp_path, tiny / "model", **_pattern(".*vision.*q_proj")))
    assert ended.code == 2, ended.err
    assert "lora.target_modules" in ended.line()


def test_rows_that_a_library_refuses_are_named(
    tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    """A column of texts holds no pictures."""
    more = {"data": {"image": "topic"}, "training": {"packing": False, "max_length": None}}
    ended = tried(recipe_of(tmp_path, tiny / "model", **more))
    assert ended.code == 2, ended.err
    assert ended.line().startswith(f"error: data set {tiny}/emoji")


# By what is wrong with a model: its file, the change, and parts of the line.
BAD_MODELS: dict[str, tuple[str, Callable[[dict[str, Any]], object], tuple[str, ...]]] = {
    "an unknown architecture": ("config.json", lambda tree: tree.update(model_type="nobody"), ("nobody",)),
    "no language model": ("config.json", lambda tree: tree.update(model_type="vit"), ("cannot be loaded",)),
    "a vocabulary below its tokenizer's": (
        "config.json",
        lambda tree: tree.update(vocab_size=300),
        ("the model knows 300 tokens",),
    ),
    "quantized weights that take no adapter": (
        "config.json",
        lambda tree: tree.update(quantization_config={"quant_method": "gptq", "bits": 4}),
        ("published with gptq weights", "training.result"),
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_would_fail_ends_with_one_line(
    case: str, tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    file, change, parts = BAD_MODELS[case]
    ended = tried(recipe_of(tmp_path, edited(tiny, tmp_path, file, change)))
    assert ended.code == 2, ended.err
    assert all(part in ended.line() for part in parts), ended.line()


def test_what_nobody_has_foreseen_is_a_traceback_and_one_line(
    tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    """Cutting rows is no packing of this run, and trl's collator does not give what the attention wants."""
    recipe = recipe_of(tmp_path, tiny / "text-model", training={"trl": {"packing_strategy": "wrapped"}})
    ended = tried(recipe)
    assert ended.code == 2, ended.err
    assert "training.trl" in ended.line()


def test_a_model_that_cannot_be_shrunk_is_a_warning(
    tiny: Path, tmp_path: Path, tried: Callable[..., Ended]
) -> None:
    """Four heads cannot share three keys, so no plain pass works in any form."""
    heads = {"num_attention_heads": 4, "num_key_value_heads": 3}
    model = edited(tiny, tmp_path, "config.json", lambda tree: tree.update(heads))
    ended = tried(recipe_of(tmp_path, model))
    assert ended.code == 0, ended.err
    assert ended.line().startswith(f"warning: no trial of {tmp_path}/recipe.yaml: no small model of Gemma3")
    assert not (tmp_path / "cache/finetune/trials").exists()
