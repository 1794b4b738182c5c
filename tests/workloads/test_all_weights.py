"""A recipe without an adapter trains all weights: one process, two with shards, with and without faults."""

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from launches import edited, local, torchrun
from outcomes import losses

from finetune.__main__ import main
from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import make_recipe
from shared.errors import PassingError
from shared.recipe_file import RecipeError

if TYPE_CHECKING:
    import torch

# Losses of one process and of two, whose sums have another order.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs of SQL rows on the model that takes pictures, a checkpoint every two steps, two answers."""
    path = make_recipe(
        tmp_path_factory.mktemp("recipe") / "recipe.yaml",
        tiny,
        "gemma-3-12b-text-to-sql",
        learning_rate=0.001,
        evaluate_every_steps=2,
        batch_size=1,
    )
    tree = yaml.safe_load(path.read_text())
    del tree["lora"]
    path.write_text(yaml.safe_dump(tree))
    return edited(path, "all.yaml", evaluation={"rows": 2, "max_new_tokens": 5})


@pytest.fixture(scope="module")
def alone(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of one process, with the batch of two."""
    store = tmp_path_factory.mktemp("alone")
    assert main([*local(recipe, store, "mine"), "--set=training.batch_size=2"]) == 0
    return store / "mine"


@pytest.fixture(scope="module")
def sharded(recipe: Path, warm: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the runs `undisturbed` and `mine` of two processes. `mine` was stopped and resumed.

    `unpublished` is `undisturbed`, published again out of its last checkpoint. `bf16` is computed in bf16.
    """
    store = tmp_path_factory.mktemp("sharded")
    shards = edited(recipe, "shards.yaml", training={"sharding": "fsdp2"})
    code, output = torchrun(
        warm,
        shards,
        store,
        {"arguments": local(shards, store, "undisturbed")},
        {"arguments": local(shards, store, "mine"), "terminate": {"rank": 1, "step": 3}},
    )
    assert code == 143, output
    shutil.copytree(store / "undisturbed", store / "unpublished")
    (store / "unpublished" / "COMPLETE.json").unlink()
    shutil.rmtree(store / "unpublished" / "model")
    bf16 = edited(shards, "bf16.yaml", model={"precision": "bf16"})
    code, output = torchrun(
        warm,
        shards,
        store,
        {"arguments": local(shards, store, "mine")},
        {"arguments": local(shards, store, "unpublished")},
        {"arguments": local(bf16, store, "bf16")},
    )
    assert code == 0, output
    assert "from step 3" in output
    return store


def test_a_recipe_without_lora_trains_all_weights_and_publishes_a_model(recipe: Path) -> None:
    trained = load_recipe(str(recipe))
    assert (trained.lora, trained.training.result, trained.results) == (None, "model", ["model"])
    assert load_recipe("gemma-3-12b-text-to-sql").results == ["adapter"]
    assert load_recipe("gemma-3-1b-emoji").results == ["adapter", "model"]
    none = ["lora=null", "model.quantization=none"]
    assert load_recipe("gemma-3-1b-emoji", none).results == ["model"]
    again = load_recipe(str(recipe), ["lora.rank=4"])
    assert again.lora and again.lora.rank == 4


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("model.quantization=nf4", "model.quantization must be none without lora: 4-bit weights cannot be"),
        ("training.result=adapter", "training.result must be model without lora: there is no adapter"),
    ],
)
def test_settings_of_an_adapter_are_refused_without_one(setting: str, problem: str, recipe: Path) -> None:
    with pytest.raises(RecipeError, match=problem) as caught:
        load_recipe(str(recipe), [setting])
    assert "\n" not in str(caught.value)


def test_the_published_model_loads_and_has_other_weights_where_the_rows_reach_it(
    alone: Path, tiny: Path
) -> None:
    from transformers import AutoModelForCausalLM

    trained = weights(alone / "model")
    base = weights(tiny / "model")
    assert trained.keys() == base.keys()
    for name, weight in trained.items():
        is_for_pictures = "vision" in name or "multi_modal" in name
        assert (weight == base[name].bfloat16()).all() == is_for_pictures, name
    assert AutoModelForCausalLM.from_pretrained(alone / "model").config.dtype is not None
    complete = json.loads((alone / "COMPLETE.json").read_text())
    assert complete["model"].keys() >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert "adapter" not in complete and not (alone / "adapter").exists()
    assert complete["answers"]["judged"] >= 0


def test_a_resumed_run_of_one_process_has_the_weights_of_an_undisturbed_one_bit_by_bit(
    alone: Path, recipe: Path, tmp_path: Path
) -> None:
    """Resumed from a checkpoint in its middle. The names in its files are not those in the model."""
    run = shutil.copytree(alone, tmp_path / "mine")
    (run / "COMPLETE.json").unlink()
    shutil.rmtree(run / "model")
    (last,) = run.glob(f"checkpoint-{len(losses(alone)):08d}-*")
    shutil.rmtree(last)
    assert main([*local(recipe, tmp_path, "mine"), "--set=training.batch_size=2"]) == 0
    assert losses(run) == losses(alone)
    same(weights(run / "model"), weights(alone / "model"))


def test_a_run_cut_off_before_it_was_published_is_published_out_of_its_last_checkpoint(
    alone: Path, recipe: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(alone, tmp_path / "mine")
    (run / "COMPLETE.json").unlink()
    shutil.rmtree(run / "model")
    assert main([*local(recipe, tmp_path, "mine"), "--set=training.batch_size=2"]) == 0
    same(weights(run / "model"), weights(alone / "model"))


def test_two_processes_with_shards_have_the_losses_and_the_weights_of_one(alone: Path, sharded: Path) -> None:
    assert losses(sharded / "undisturbed") == pytest.approx(losses(alone), abs=TOLERANCE)
    expected, trained = weights(alone / "model"), weights(sharded / "undisturbed" / "model")
    assert trained.keys() == expected.keys()
    for name, weight in trained.items():
        # Published in bf16, whose steps are 0.4 %.
        assert weight.float().numpy() == pytest.approx(expected[name].float().numpy(), abs=2e-4, rel=0.01), (
            name
        )


def test_shards_that_are_resumed_give_the_model_of_an_undisturbed_run_bit_by_bit(sharded: Path) -> None:
    assert losses(sharded / "mine") == losses(sharded / "undisturbed")
    same(weights(sharded / "mine" / "model"), weights(sharded / "undisturbed" / "model"))
    (newest,) = (sharded / "mine").glob(f"checkpoint-{len(losses(sharded / 'mine')):08d}-*")
    files = json.loads((newest / "COMPLETE.json").read_text())["files"]
    for part in ("pytorch_model_fsdp_0/__{}_0.distcp", "optimizer_0/__{}_0.distcp"):
        assert {part.format(0), part.format(1)} <= files.keys()
    assert not any(file.endswith(".safetensors") for file in files)


def test_a_sharded_run_is_published_out_of_its_last_checkpoint(sharded: Path) -> None:
    same(weights(sharded / "unpublished" / "model"), weights(sharded / "undisturbed" / "model"))
    answers = [(sharded / run / "answers.jsonl").read_text() for run in ("unpublished", "undisturbed")]
    assert answers[0] == answers[1]


def test_weights_stay_in_fp32_where_the_computation_is_in_bf16(sharded: Path) -> None:
    from torch.distributed.checkpoint import FileSystemReader

    assert losses(sharded / "bf16") == pytest.approx(losses(sharded / "undisturbed"), abs=0.05)
    newest = sorted((sharded / "bf16").glob("checkpoint-*"))[-1]
    saved: Any = FileSystemReader(newest / "pytorch_model_fsdp_0").read_metadata()
    tensors = saved.state_dict_metadata.values()
    assert {str(tensor.properties.dtype) for tensor in tensors} == {"torch.float32"}


def test_the_best_model_is_published_and_not_the_last_one(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faulty import evaluate_to

    from finetune.run import trainer

    monkeypatch.setattr(trainer.RowTrainer, "evaluation_loop", trainer.RowTrainer.evaluation_loop)
    evaluate_to({"0": 0.5, "2": 1.0, "4": 2.0, "6": 3.0})
    best = edited(recipe, "best.yaml", training={"load_best_model_at_end": True, "batch_size": 2})
    assert main(local(best, tmp_path, "mine")) == 0
    run = tmp_path / "mine"
    assert json.loads((run / "COMPLETE.json").read_text())["evaluation"]["step"] == 2
    kept = run / "best-00000002"
    same(weights(run / "model"), weights(kept))
    assert len(losses(run)) > 2


def test_there_is_nothing_to_merge(alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", str(alone), str(tmp_path / "merged")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"trained all weights: its result is a model already, copy {alone}/model")


def test_a_dry_run_counts_the_weights_that_are_trained(
    recipe: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", f"--recipe={recipe}", "--dry-run"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("trainable")]
    (count,) = re.findall(r"trainable +([\d,]+) parameters", line)
    base = weights(tiny / "model")
    reached = [weight for name, weight in base.items() if not re.search("vision|multi_modal", name)]
    assert int(count.replace(",", "")) == sum(weight.numel() for weight in reached)


def weights(directory: Path) -> "dict[str, torch.Tensor]":
    from safetensors.torch import load_file

    return load_file(directory / "model.safetensors")


def same(trained: dict[str, Any], expected: dict[str, Any]) -> None:
    """All weights are equal, bit by bit."""
    assert trained.keys() == expected.keys()
    for name, weight in trained.items():
        assert (weight == expected[name]).all(), name


@pytest.mark.parametrize("part", ["embed_tokens", "down_proj"])
def test_a_checkpoint_with_a_weight_that_is_not_finite_is_refused(
    part: str, tiny: Path, tmp_path: Path
) -> None:
    """Also in the embedding, which this model has under a second name as its output."""
    from transformers import AutoModelForCausalLM

    from finetune.model.all_weights import check_weights

    model = AutoModelForCausalLM.from_pretrained(tiny / "text-model")
    model.save_pretrained(tmp_path)
    check_weights(model, tmp_path)
    for name, weight in model.named_parameters():
        if part in name:
            weight.data[0, 0] = float("nan")
    model.save_pretrained(tmp_path)
    with pytest.raises(PassingError, match="has a weight that is not finite"):
        check_weights(model, tmp_path)
