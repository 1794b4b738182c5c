"""A run of a published model ends well: it answers, and publishes an adapter and a model that load."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from outcomes import losses
from published import FAMILIES, changed, config_of, make_published, names_in

from finetune.__main__ import main
from finetune.model.loading import load_processor
from finetune.model.small_copy import see
from finetune.storage.checkpoint import MARKER
from shared.remembered import SUBMISSION

# One of each kind of trouble. The others are tried in the long run of the tests.
QUICK = (
    "Qwen/Qwen3-0.6B",
    "openai/gpt-oss-20b",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "ibm-granite/granite-4.0-micro",
    "zai-org/GLM-4.5-Air",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct (text)",
    "Qwen/Qwen2.5-7B (base, with the template of the family)",
    "Qwen/Qwen3.5-35B-A3B",
    "Qwen/Qwen3-VL-8B-Instruct",
    "nvidia/Nemotron-Mini-4B-Instruct",
    "SmallDoge/Doge-160M-Instruct",
)
# A layer's bounds that are infinite, and a coefficient for experts that the model does not have.
QUICK_ALL = ("google/gemma-4-E2B-it", "SmallDoge/Doge-160M-Instruct")
TRAINED = [name for name, family in FAMILIES.items() if not family.refused]
PAGE = Path(__file__).parents[2] / "docs/training/own-model.md"
FEW = "Qwen/Qwen3-0.6B"


def recipe_of(path: Path, tiny: Path, tmp_path: Path, **sections: Any) -> Path:
    """A packed recipe with an adapter, a merged model and answers, and other `sections` in place of its."""
    recipe = {
        "model": {"name": str(path), "precision": "fp32"},
        "lora": {"rank": 4},
        "data": {
            "name": str(tiny / "emoji"),
            "rows": 8,
            "test_rows": 4,
            "reply": "emoji",
            "prompt": "Translate to emoji: {text}",
        },
        "training": {
            "packing": True,
            "max_length": 400,
            "gradient_checkpointing": False,
            "loader_processes": 0,
            "learning_rate": 0.01,
            "log_every_steps": 1,
            "result": "model",
        },
        "evaluation": {"rows": 2, "max_new_tokens": 4},
    }
    for name, section in sections.items():
        recipe[name] = section if section is None else recipe[name] | section
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return tmp_path / "recipe.yaml"


def start(recipe: Path, *more: str) -> int:
    return main(["local", f"--recipe={recipe}", f"--storage={recipe.parent}/store", "--run=mine", *more])


@pytest.mark.parametrize("name", FAMILIES)
def test_two_rows_of_a_published_model_tell_whether_it_packs_and_whether_it_is_trained(name: str) -> None:
    family = FAMILIES[name]
    sight = see(config_of(family))
    assert sight.is_causal == (family.refused is None)
    assert family.refused or (sight.not_packed is None) == (family.alone is None), sight.not_packed


def table() -> str:
    """The table of families on the page about models."""
    rows: dict[str, tuple[str, list[str]]] = {}
    for family in FAMILIES.values():
        how = "packed, with a shared prefix"
        if family.alone:
            how = f"without packing: {family.alone}"
        if family.refused:
            how = f"refused: {family.refused}"
        text, names = rows.setdefault(family.title, (how, []))
        assert text == how, family.title
        # Behind the name is what is tried of it.
        names += [f"`{family.name.split()[0]}`"] if "/" in family.name else []
    lines = [f"| {title} | {text} | {', '.join(names)} |" for title, (text, names) in sorted(rows.items())]
    return "\n".join(["| family | rows of text | tried as |", "|---|---|---|", *lines, ""])


def test_the_page_about_models_has_the_families_that_these_tests_show() -> None:
    assert len(FAMILIES) > 40
    page = PAGE.read_text()
    assert table() in page, table()
    assert f"{len(FAMILIES)} models" in page


@pytest.mark.parametrize(
    ("weights", "name"),
    [
        (weights, name) if name in quick else pytest.param(weights, name, marks=pytest.mark.slow)
        for weights, quick in (("adapter", QUICK), ("all", QUICK_ALL))
        for name in TRAINED
    ],
)
def test_a_run_of_a_published_model_answers_and_publishes_what_loads(
    weights: str, name: str, tiny: Path, tmp_path: Path
) -> None:
    family = FAMILIES[name]
    model = make_published(family, tmp_path / "model")
    recipe = recipe_of(model, tiny, tmp_path, **({"lora": None} if weights == "all" else {}))
    assert start(recipe, "--dry-run") == 0
    assert start(recipe) == 0
    run = tmp_path / "store/mine"
    assert len((run / "answers.jsonl").read_text().splitlines()) == 2
    assert (run / "adapter").exists() == (weights == "adapter")
    assert names_in(run / "model") == names_in(model) - {*family.extra.get("model", ())}
    assert {file.name for file in (run / "model").glob("*.safetensors")} == {"model.safetensors"}


@pytest.mark.parametrize("weights", ["adapter", "all"])
def test_a_figure_of_a_mixture_is_the_loss_of_its_rows(weights: str, tiny: Path, tmp_path: Path) -> None:
    """The published coefficient of gpt-oss would add 0.9 times the balance of its experts."""
    from test_families import loss_of_rows_one_by_one

    from finetune.settings.recipe import load_recipe
    from rehearsal.running_pods.tiny import make_trainer

    model = make_published(FAMILIES["openai/gpt-oss-20b"], tmp_path / "model")
    more = {"lora": None} if weights == "all" else {}
    recipe = load_recipe(
        str(recipe_of(model, tiny, tmp_path, training={"packing": False, "batch_size": 8}, **more)), []
    )
    trainer: Any = make_trainer(recipe, tmp_path)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(loss_of_rows_one_by_one(recipe), abs=2e-6)
    trainer.train()
    (first, *_) = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert ("aux_loss" in first) == (weights == "all")
    # The training rows are of the same kind. The balance alone is 0.9 or more.
    assert first["loss"] == pytest.approx(loss_of_rows_one_by_one(recipe), abs=0.5)


def test_a_balance_that_the_library_cannot_compute_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES["ibm-granite/granite-3.1-1b-a400m-instruct"], tmp_path / "model")
    recipe = recipe_of(model, tiny, tmp_path, training={"trl": {"router_aux_loss_coef": 0.01}})
    assert start(recipe) == 2
    problem = "trl cannot balance the experts of GraniteMoeForCausalLM; leave it out"
    assert capsys.readouterr().err.splitlines()[-1].endswith(problem)


def test_tensors_that_are_left_out_are_told(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES["zai-org/GLM-4.5-Air"], tmp_path / "model")
    assert start(recipe_of(model, tiny, tmp_path)) == 0
    line = "2 tensors of the published files are not in the model, because transformers does not load them: "
    assert line + "model.layers.2.eh_proj.weight, model.layers.2.enorm.weight\n" in capsys.readouterr().out


def test_the_adapter_is_published_before_a_merge_that_fails_and_a_second_start_finishes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(make_published(FAMILIES[FEW], tmp_path / "model"), tiny, tmp_path)

    def fail(*_: Any) -> None:
        raise RuntimeError("no such merge")

    with monkeypatch.context() as patch:
        patch.setattr("finetune.results.result.merge_adapter", fail)
        assert start(recipe) == 2
    run = tmp_path / "store/mine"
    error = capsys.readouterr().err.splitlines()[-1]
    kept = f"error: the model is not published ({run}/adapter is whole): RuntimeError: no such merge"
    assert error.startswith(kept)
    steps = len(losses(run))
    assert (run / "adapter/adapter_model.safetensors").exists() and not (run / MARKER).exists()
    monkeypatch.setenv(SUBMISSION, "the next one")
    assert start(recipe, "--set=training.result=adapter") == 0
    assert "goes on with another training.result" in capsys.readouterr().out
    assert "model" not in json.loads((run / MARKER).read_text()) and len(losses(run)) == steps
    assert start(recipe) == 2
    merge = f"run mine is finished with its adapter alone: `python -m finetune merge {run} FOLDER` writes"
    assert merge in capsys.readouterr().err
    assert main(["merge", str(run), str(tmp_path / "merged")]) == 0


@pytest.mark.parametrize("result", ["model", "adapter"])
def test_a_reply_ends_where_the_published_model_does_not_stop(
    result: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case of a base model with its family's template. The model that is published stops there."""
    family = FAMILIES["Qwen/Qwen2.5-7B (base, with the template of the family)"]
    model = make_published(family, tmp_path / "model")
    end = load_processor(str(model), pictures=False).convert_tokens_to_ids("<|im_end|>")
    recipe = recipe_of(model, tiny, tmp_path, training={"result": result})
    problem = "replies end with <|im_end|>, at which the published model does not stop: "
    remedy = "generation_config.json of the result names it"
    if result == "adapter":
        remedy = f"ask a server of the adapter with stop_token_ids [{end}], or set training.result: model"
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == 0
        assert f"{problem}{remedy}\n" in capsys.readouterr().out
    if result == "model":
        published = json.loads((model / "generation_config.json").read_text())["eos_token_id"]
        stops = json.loads((tmp_path / "store/mine/model/generation_config.json").read_text())
        assert stops["eos_token_id"] == [*published, end]


def test_a_reply_that_ends_with_an_ordinary_text_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    template = "{% for m in messages %}{{ m.role + ': ' + m.content + ' END ' }}{% endfor %}"
    (model / "chat_template.jinja").write_text(
        template + "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    recipe = recipe_of(model, tiny, tmp_path)
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == 2
        assert "which is no token of its own in the tokenizer" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("padding", ["none", "behind the embedding", "no end either"])
def test_rows_are_answered_together_whatever_the_padding_token(
    padding: str, tiny: Path, tmp_path: Path
) -> None:
    """Llama 3 and Mistral have none. Some fine-tunes add one and leave the embedding as it is."""
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    tokenizer = load_processor(str(model), pictures=False)
    tokenizer.pad_token = None
    if padding == "behind the embedding":
        tokenizer.add_tokens([f"<extra {number}>" for number in range(512 - len(tokenizer))])
        tokenizer.add_special_tokens({"pad_token": "[PAD]"})
        assert tokenizer.pad_token_id >= 512
    elif padding == "no end either":
        tokenizer.eos_token = tokenizer.bos_token = None
    tokenizer.save_pretrained(model)
    assert start(recipe_of(model, tiny, tmp_path, training={"packing": False, "batch_size": 3})) == 0
    assert len((tmp_path / "store/mine/answers.jsonl").read_text().splitlines()) == 2


def test_a_token_that_the_model_does_not_know_is_told_with_its_row(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    tokenizer = load_processor(str(model), pictures=False)
    tokenizer.add_tokens([f"<extra {number}>" for number in range(512 - len(tokenizer))])
    tokenizer.add_tokens(["<tag>"])
    tokenizer.save_pretrained(model)
    recipe = recipe_of(model, tiny, tmp_path, data={"prompt": "Translate <tag> to emoji: {text}"})
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert "writes '<tag>' as token 512, and the model knows 512 tokens; it stands in the row" in error


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({}, "into which no adapter is merged: set training.result to adapter"),
        ({"lora": None}, "which cannot be trained: add lora"),
        ({"model": {"quantization": "nf4"}}, "which are not quantized again: leave out model.quantization"),
        ({"training": {"result": "adapter"}}, None),
    ],
    ids=["merged", "all-weights", "nf4", "adapter"],
)
def test_a_model_that_is_published_in_4_bits_takes_an_adapter_alone(
    sections: dict[str, Any],
    problem: str | None,
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    wide = replace(FAMILIES[FEW], settings=FAMILIES[FEW].settings | {"hidden_size": 64, "head_dim": 32})
    plain = make_published(wide, tmp_path / "plain")
    bits = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_use_double_quant=True,
    )
    options = {"quantization_config": bits, "device_map": {"": "cpu"}}
    AutoModelForCausalLM.from_pretrained(plain, **options).save_pretrained(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(plain / name, tmp_path / "model" / name)
    recipe = recipe_of(tmp_path / "model", tiny, tmp_path, **sections)
    for more in (["--dry-run"], []):
        assert start(recipe, *more) == (2 if problem else 0)
        if problem:
            error = capsys.readouterr().err.splitlines()[-1]
            assert "is published with bitsandbytes weights, " in error and problem in error


@pytest.mark.parametrize("quantized", ["mxfp4", "fp8"])
@pytest.mark.parametrize("weights", ["adapter", "all"])
def test_a_model_that_is_published_in_a_form_that_can_be_undone_is_trained_and_written_in_16_bits(
    quantized: str, weights: str, tiny: Path, tmp_path: Path
) -> None:
    """gpt-oss is published in mxfp4, DeepSeek V3 and others in fp8."""
    make = {"mxfp4": in_mxfp4, "fp8": in_fp8}[quantized]
    make(tmp_path / "model")
    recipe = recipe_of(tmp_path / "model", tiny, tmp_path, **({"lora": None} if weights == "all" else {}))
    assert start(recipe) == 0
    config = json.loads((tmp_path / "store/mine/model/config.json").read_text())
    assert "quantization_config" not in config


def in_mxfp4(path: Path) -> None:
    """gpt-oss with its experts in blocks of 32 numbers of 4 bits and a scale for each."""
    import torch
    from safetensors.torch import load_file, save_file

    sizes = {"hidden_size": 64, "intermediate_size": 64}
    family = FAMILIES["openai/gpt-oss-20b"]
    make_published(replace(family, settings=family.settings | sizes), path)
    weights = load_file(path / "model.safetensors")
    for name in [name for name in weights if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        weights[f"{name}_blocks"] = blocks
        weights[f"{name}_scales"] = torch.full(blocks.shape[:3], 120, dtype=torch.uint8)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    changed(path, "config.json", quantization_config=settings)


def in_fp8(path: Path) -> None:
    """Qwen 3 with linear layers in numbers of 8 bits, and a scale for each block of 128 by 128."""
    import torch
    from safetensors.torch import load_file, save_file

    make_published(FAMILIES[FEW], path)
    weights = load_file(path / "model.safetensors")
    for name in [name for name in weights if name.endswith("_proj.weight")]:
        weights[name] = weights[name].to(torch.float8_e4m3fn)
        rows, columns = weights[name].shape
        scale = torch.ones(-(-rows // 128), -(-columns // 128))
        weights[f"{name}_scale_inv"] = scale
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    changed(path, "config.json", quantization_config=settings)


def test_settings_of_a_publishers_own_program_decide_nothing(tiny: Path, tmp_path: Path) -> None:
    """An attention that is not installed, answers by place, and searches that need other code."""
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    changed(model, "config.json", attn_implementation="flash_attention_2", return_dict=False)
    search: dict[str, Any] = {"penalty_alpha": 0.6, "top_k": 4, "suppress_tokens": [5]}
    search |= {"do_sample": True, "num_return_sequences": 2}
    changed(model, "generation_config.json", **search)
    recipe = recipe_of(model, tiny, tmp_path)
    assert start(recipe, "--dry-run") == 0
    assert start(recipe) == 0
    kept = json.loads((tmp_path / "store/mine/model/generation_config.json").read_text())
    assert {name: kept[name] for name in search} == search


@pytest.mark.parametrize(
    ("setting", "problem"),
    [({"pad_token_id": 999999}, "Padding_idx"), ({"num_hidden_layers": "two"}, "num_hidden_layers")],
    ids=["padding", "type"],
)
def test_a_configuration_of_which_no_model_can_be_made_is_one_line(
    setting: dict[str, Any], problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    changed(model, "config.json", **setting)
    assert start(recipe_of(model, tiny, tmp_path), "--dry-run") == 2
    error = capsys.readouterr().err
    assert problem in error and "Traceback" not in error
    assert error.strip().splitlines()[-1].startswith(f"error: model {model} cannot be loaded")
