"""What `make gpu-fit` computes of a step, held against what torch allocates for the same step on a CPU."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import make_recipe

if TYPE_CHECKING:
    from benchmarks.training.fit import Row
    from finetune.settings.recipe import Recipe

# Part of the whole peak. torch does not track indices and batches of tokens.
TOLERANCE = 0.05


@pytest.fixture
def row() -> "Row":
    from benchmarks.training.fit import Row

    return Row(prefix=10, prompt=30, reply=20)


@pytest.fixture
def config(tiny: Path) -> Any:
    """A model whose activations outweigh its weights."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(tiny / "text-model")


def recipe_of(tiny: Path, tmp_path: Path, **training: Any) -> "Recipe":
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", **training)
    return load_recipe(str(recipe), ["lora.dropout=0"])


@pytest.mark.parametrize("recomputed", [False, True], ids=["kept", "recomputed"])
def test_a_step_on_fake_tensors_has_the_parts_that_a_real_one_allocates(
    tiny: Path, tmp_path: Path, config: Any, row: "Row", recomputed: bool
) -> None:
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.training.fit import Watch, kernels_in_place, measure, trainer_of

    recipe = recipe_of(tiny, tmp_path, max_length=1024, gradient_checkpointing=recomputed)
    parts = measure(recipe, config, row, 1).parts

    trainer = trainer_of(recipe, config, row, tmp_path, None, Watch(None, sharded=False))
    adapter, frozen = (
        sum(weight.nbytes for weight in trainer.model.parameters() if weight.requires_grad is trained)
        for trained in (True, False)
    )
    buffers = sum(buffer.nbytes for buffer in trainer.model.buffers())
    with kernels_in_place(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        trainer.train()
    states = trainer.optimizer.optimizer.state.values()
    assert parts["weights"] == frozen + buffers
    assert parts["adapter"] == adapter
    assert parts["optimizer"] == sum(value.nbytes for state in states for value in state.values())

    events = sorted(profiled.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    allocated = peak = frozen + buffers + adapter
    for event in events:
        allocated += event.nbytes() if event.name() == "[memory]" else 0
        peak = max(peak, allocated)
    # Several processes' buckets are not in a run of one.
    assert sum(parts.values()) - adapter == pytest.approx(peak, rel=TOLERANCE)


def test_a_longer_pack_takes_more_activations_and_the_same_weights(
    tiny: Path, tmp_path: Path, config: Any, row: "Row"
) -> None:
    from benchmarks.training.fit import measure

    short, long = (
        measure(recipe_of(tiny, tmp_path, max_length=length), config, row, 1).parts for length in (512, 1024)
    )
    assert long["activations"] == pytest.approx(2 * short["activations"], rel=0.1)
    assert [long[part] for part in ("weights", "adapter", "optimizer")] == [
        short[part] for part in ("weights", "adapter", "optimizer")
    ]


@pytest.mark.slow
def test_more_processes_hold_less_of_the_weights_with_fsdp2(
    tiny: Path, tmp_path: Path, config: Any, row: "Row"
) -> None:
    from benchmarks.training.fit import measure

    recipe = recipe_of(tiny, tmp_path, max_length=512, sharding="fsdp2")
    one, two, four = (measure(recipe, config, row, processes).parts for processes in (1, 2, 4))
    assert one["weights"] > two["weights"] > four["weights"]
    assert two["optimizer"] == pytest.approx(2 * four["optimizer"], rel=0.01)
    alone = recipe.model_copy(update={"training": recipe.training.model_copy(update={"sharding": "none"})})
    assert measure(alone, config, row, 4) == measure(alone, config, row, 1)


def test_shards_send_the_weights_twice_a_step_and_whole_models_their_gradients(
    tiny: Path, tmp_path: Path, config: Any, row: "Row"
) -> None:
    """Forward and backward pass gather each layer. What is sent of the adapter hardly counts."""
    from benchmarks.training.fit import measure

    recipe = recipe_of(tiny, tmp_path, max_length=512, sharding="fsdp2")
    shards = measure(recipe, config, row, 4)
    weights = 4 * (shards.parts["weights"] + shards.parts["adapter"])
    assert shards.sent == pytest.approx(2 * 3 / 4 * weights, rel=0.2)
    alone = recipe.model_copy(update={"training": recipe.training.model_copy(update={"sharding": "none"})})
    whole = measure(alone, config, row, 4)
    assert whole.sent == 2 * whole.parts["adapter"]


@pytest.mark.slow
def test_training_all_weights_takes_twelve_bytes_a_weight_besides_gradients_shared_by_the_processes(
    tiny: Path, tmp_path: Path, config: Any, row: "Row"
) -> None:
    """The weight and both moments of the optimizer, in fp32."""
    from benchmarks.training.fit import measure
    from finetune.model.loading import empty_model

    path = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", max_length=512, sharding="fsdp2")
    recipe = load_recipe(str(path), ["lora=null"])
    count = sum(weight.numel() for weight in empty_model(recipe.model).parameters())
    for processes in (1, 2, 4):
        parts = measure(recipe, config, row, processes).parts
        kept = [parts[part] * processes for part in ("weights", "optimizer")]
        assert kept == pytest.approx([4 * count, 8 * count], rel=0.05), processes
        assert parts["adapter"] == 0
    alone = load_recipe(str(path), ["lora=null", "training.sharding=none"])
    gradients = [measure(alone, config, row, processes).parts["gradients"] for processes in (1, 2)]
    buckets = gradients[1] - gradients[0]
    assert buckets == 4 * count


def test_four_bit_weights_are_counted_as_bitsandbytes_keeps_them() -> None:
    import torch
    from bitsandbytes import functional

    from benchmarks.training.fit import nf4_bytes

    quantize: Any = functional.quantize_4bit
    packed, state = quantize(torch.randn(192, 640), compress_statistics=True, quant_type="nf4")
    kept = [packed, state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code]
    assert nf4_bytes(192 * 640) == sum(tensor.nbytes for tensor in kept)


def test_a_recipe_of_ones_own_is_computed_and_kept_beside_the_shipped_figures(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.training import own_fit
    from finetune.settings import recipe as recipes

    figures_file = tmp_path / "own-fit.json"
    monkeypatch.setattr(recipes, "OWN_FIT", figures_file)
    path = str(make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji"))
    settings = ["--set=training.packing=false", "--set=training.max_length=null"]
    assert own_fit.main([f"--recipe={path}", *settings, "--processes=4", "--memory-gb=24"]) == 0
    output = capsys.readouterr().out
    assert "chosen, because the recipe does not say it: max_length 64" in output
    assert "1 processes, 64 tokens: 0.02 GB computed" in output
    assert own_fit.main([f"--recipe={path}", "--set=training.max_length=128"]) == 0
    figures = json.loads(figures_file.read_text())
    digests = {
        load_recipe(path, ["training.packing=false", "training.max_length=null"]).fit_digest(24): None,
        load_recipe(path).fit_digest(24): 128,
    }
    assert {figure["digest"]: figure["points"][0]["max_length"] for figure in figures.values()} == digests


def test_a_step_of_pairs_is_computed_with_two_rows_a_pair(tiny: Path, tmp_path: Path) -> None:
    from benchmarks.training.own_fit import rows_of_a_step

    path = str(make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", batch_size=3))
    alone = load_recipe(path, ["training.packing=false"])
    assert rows_of_a_step(alone) is alone
    pairs = load_recipe(
        path, ["training.packing=false", "task=preference", "data.rejected=text", "lora.dropout=0"]
    )
    assert pairs.memory_digest != alone.memory_digest
    assert (rows_of_a_step(pairs).task, rows_of_a_step(pairs).training.batch_size) == ("fine-tune", 6)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("lora.target_modules=nothing", "error: lora.target_modules nothing matches no module of"),
        ("model.name=/absent", "error: model /absent is not a directory with a config.json"),
        ("training.epochs=0", "training.epochs must be greater than 0"),
    ],
)
def test_what_cannot_be_computed_is_one_line_and_code_2(
    wrong: str,
    problem: str,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from benchmarks.training import own_fit
    from finetune.settings import recipe as recipes

    monkeypatch.setattr(recipes, "OWN_FIT", tmp_path / "own-fit.json")
    path = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    assert own_fit.main([f"--recipe={path}", f"--set={wrong}"]) == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "own-fit.json").exists()
