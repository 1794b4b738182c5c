"""Weights from the Hub and back: what transformers computes with them, MaxText computes with its own.

transformers computes in the environment of the other trainers, where torch is.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import make_recipe, make_tokenizer

from maxtext_driver import __main__ as command
from maxtext_driver.recipe import Recipe, Source, load_recipe
from maxtext_driver.run_folder import Placement, RunFolder
from rehearsal.stand_ins.hub import Hub
from shared.errors import InputError
from shared.exit_codes import Exit

ROOT = Path(__file__).parents[2]
TRANSFORMERS = """
import sys, numpy, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
folder, logits, configuration = sys.argv[1], sys.argv[2], eval(sys.argv[3])
if configuration:
    torch.manual_seed(7)
    LlamaForCausalLM(LlamaConfig(**configuration)).save_pretrained(folder)
else:
    assert AutoTokenizer.from_pretrained(folder).encode("the cat sat")
positions = 20 * torch.arange(24).reshape(1, 24)
model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
assert model.dtype == torch.float32
# Without a mask it would take positions with gaps for many sequences.
mask = torch.ones_like(positions)
numpy.save(logits, model(positions * 3 % 64, mask, positions).logits.detach().numpy())
"""
NAME = "me/published"
TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 64,
    "rms_norm_eps": 1e-5,
    # Otherwise all logits are about zero, and attention is the same everywhere.
    "initializer_range": 0.2,
    "dtype": "float32",
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}


def transformers_logits(folder: Path, configuration: dict[str, Any] | None = None) -> Any:
    """What transformers computes with a folder's model, or with one that it makes there."""
    import numpy

    python = ROOT / ".venv-training/bin/python"
    if not python.exists():
        pytest.skip("transformers computes in .venv-training: make .venv-training/.ready")
    logits = folder.parent / "logits.npy"
    arguments = ["-c", TRANSFORMERS, folder, logits, repr(configuration)]
    subprocess.run([python, *arguments], check=True)
    return numpy.load(logits)


def maxtext_logits(recipe: Recipe, checkpoint: Path) -> Any:
    """What MaxText's own forward pass computes with a checkpoint."""
    import jax.numpy
    import numpy
    from maxtext.configs import pyconfig
    from maxtext.utils.model_creation_utils import from_pretrained

    from maxtext_driver.configuration import maxtext_arguments

    where = {"load_parameters_path": str(checkpoint / "items"), "run_name": "unused"}
    model, mesh = from_pretrained(
        pyconfig.initialize(
            maxtext_arguments(recipe, **where, hardware="cpu", skip_jax_distributed_system=True)
        )
    )
    # Far apart, so that Llama 3.1's scaling shows.
    positions = 20 * jax.numpy.arange(24).reshape(1, 24)
    with mesh:
        logits = model(positions * 3 % 64, positions, jax.numpy.ones_like(positions), enable_dropout=False)
    return numpy.asarray(logits)


def recipe_of(directory: Path, **settings: Any) -> Path:
    """Trains the tiny model, from the published weights."""
    tiny = {
        "model_name": "llama3.1-8b",
        "load_parameters_path": f"hf://{NAME}",
        "override_model_config": True,
        "base_emb_dim": 64,
        "base_mlp_dim": 96,
        "base_num_decoder_layers": 3,
        "base_num_query_heads": 4,
        "base_num_kv_heads": 2,
        "head_dim": 16,
        "vocab_size": 64,
        "dtype": "float32",
        "attention": "dot_product",
        "max_target_length": 24,
        "per_device_batch_size": 1,
    }
    return make_recipe(directory / "recipe.yaml", **{**tiny, **settings})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with weights and a tokenizer, and its logits."""
    folder = tmp_path_factory.mktemp("model") / "files"
    logits = transformers_logits(folder, TINY)
    make_tokenizer(folder)
    return folder, logits


@pytest.fixture
def published(hub: Hub, model: tuple[Path, Any]) -> Iterator[Path]:
    """The folder of a model on the Hub."""
    hub.model(NAME).push(model[0])
    yield model[0]
    hub.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("published")
def test_weights_come_from_the_hub_and_go_back_with_the_same_logits(
    model: tuple[Path, Any], tmp_path: Path
) -> None:
    from maxtext_driver.hugging_face import export, fetch_weights

    # A conversion reads no rows, and this recipe has some.
    rows = {"dataset_type": "grain", "grain_file_type": "parquet", "grain_train_files": "/nowhere/*.parquet"}
    recipe, expected = load_recipe(str(recipe_of(tmp_path, **rows))), pytest.approx(model[1], abs=1e-4)
    assert abs(model[1]).max() > 1
    run = RunFolder(tmp_path, "mine")
    # Earlier tries were cut off.
    for part in (run.weights / "0.orbax-checkpoint-tmp", run.path / "hugging-face.part" / "old"):
        part.mkdir(parents=True)
    fetch_weights(recipe, run)
    assert maxtext_logits(recipe, run.weights / "0") == expected
    (run.path / "checkpoints").mkdir()
    (run.weights / "0").rename(run.path / "checkpoints" / "0")
    export(recipe, run)
    assert transformers_logits(run.exported) == expected
    assert not (run.exported / "old").exists()


@pytest.mark.slow
def test_weights_of_another_model_or_that_are_gated_are_refused_and_nothing_is_left(
    hub: Hub, published: Path, tmp_path: Path
) -> None:
    from maxtext_driver.hugging_face import fetch_weights

    recipe, run = load_recipe(str(recipe_of(tmp_path))), RunFolder(tmp_path, "mine")
    other = tmp_path / "other"
    shutil.copytree(published, other)
    config = (other / "config.json").read_text()
    (other / "config.json").write_text(config.replace("500000.0", "10000.0").replace("96", "80"))
    hub.model(NAME).push(other)
    refused = "it has another intermediate_size, rope_parameters.rope_theta$"
    with pytest.raises(InputError, match=f"hf://{NAME} is no llama3.1-8b: {refused}"):
        fetch_weights(recipe, run)
    hub.model(NAME).gated = True
    hub.model(NAME).push(published)
    with pytest.raises(InputError, match=f"model {NAME} is gated and no token"):
        fetch_weights(recipe, run)
    assert not run.weights.exists()


@pytest.mark.slow
def test_a_run_trains_from_published_weights_and_its_end_result_loads_with_transformers(
    model: tuple[Path, Any], published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False)
    monkeypatch.setattr(command, "dry_run", lambda _: 0)
    path = recipe_of(tmp_path, steps=2, checkpoint_period=1, learning_rate=1e-4, warmup_steps_fraction=0.0)
    submit = ["--recipe", str(path), "--output", str(tmp_path), "--run", "mine", "--workers", "1"]
    try:
        assert command.main(submit) == Exit.FINISHED
        run = RunFolder(tmp_path, "mine")
        trained = maxtext_logits(load_recipe(str(path)), run.path / "checkpoints" / "1")
        assert transformers_logits(run.exported) == pytest.approx(trained, abs=1e-4)
        # As if its host had been lost before that. The rest of a finished run is not done again.
        shutil.rmtree(run.weights)
        shutil.rmtree(run.exported)
        assert command.main(submit) == Exit.FINISHED
        assert (run.exported / "model.safetensors").is_file()
        assert not run.weights.exists()
    finally:
        ray.shutdown()
    # Trained, and from these weights: others have logits that are several away.
    assert 1e-3 < abs(trained - model[1]).max() < 0.5 < abs(model[1]).max() / 2


def test_a_run_keeps_to_the_commit_that_its_weights_had(hub: Hub, tmp_path: Path) -> None:
    commit = hub.model(NAME).push(tmp_path)
    recipe, run = load_recipe(str(recipe_of(tmp_path))), RunFolder(tmp_path, "mine")
    run.claim(recipe, Placement(workers=1))
    assert run.pinned(recipe).weights == Source(NAME, commit, "model")
    hub.model(NAME).push(tmp_path)
    assert run.pinned(recipe).weights == Source(NAME, commit, "model")
    with pytest.raises(InputError, match="model me/nobody cannot be found"):
        RunFolder(tmp_path, "other").pinned(
            load_recipe(str(recipe_of(tmp_path, load_parameters_path="hf://me/nobody")))
        )
    hub.reset()
