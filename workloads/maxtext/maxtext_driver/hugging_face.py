"""Converts weights of the Hugging Face Hub for MaxText and back, unrounded. The import takes seconds."""

import copy
import shutil
from pathlib import Path
from typing import Any

from absl import flags
from huggingface_hub import snapshot_download
from maxtext.checkpoint_conversion import to_huggingface, to_maxtext
from maxtext.checkpoint_conversion.utils.hf_model_configs import HF_MODEL_CONFIGS
from maxtext.configs import pyconfig
from transformers import AutoConfig, AutoTokenizer

from conversations.thinking import settle
from maxtext_driver import conversation_rows
from maxtext_driver.configuration import maxtext_arguments
from maxtext_driver.recipe import WEIGHTS, Recipe
from maxtext_driver.run_folder import RunFolder
from shared.errors import InputError
from shared.files import differences
from shared.hub import read
from shared.model_files import DESCRIPTIONS, FROM_DISK, UNWANTED, WANTED


def make_rows(recipe: Recipe, run: RunFolder) -> None:
    """Make the packed tokens of a run's conversations, with the tokenizer of its weights.

    Raises InputError when rows cannot be read or trained.
    """
    conversation_rows.make_rows(recipe, run, Path(_downloaded(recipe, *DESCRIPTIONS)))


def fetch_weights(recipe: Recipe, run: RunFolder) -> None:
    """Store the weights that a new run starts from. Raises InputError for weights of another model."""
    name, folder = recipe.maxtext["model_name"], _downloaded(recipe, *WANTED)
    arguments = _arguments(recipe, base_output_directory=str(run.weights), run_name=run.name)
    published = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    wanted = copy.deepcopy(published)
    wanted.rope_parameters = getattr(HF_MODEL_CONFIGS[name], "rope_parameters", None)
    to_huggingface._validate_or_update_architecture(wanted, pyconfig.initialize(arguments), override=True)
    if others := sorted(differences(published.to_dict(), wanted.to_dict())):
        raise InputError(f"{recipe.maxtext[WEIGHTS]} is no {name}: it has another {', '.join(others)}")
    HF_MODEL_CONFIGS[name] = published
    to_maxtext.main(arguments, hf_model_path=folder, save_dtype="float32")


def export(recipe: Recipe, run: RunFolder) -> None:
    """Write the result in the form that transformers loads, with the tokenizer of the published weights."""
    tokenizer = _downloaded(recipe, *DESCRIPTIONS)
    flags.FLAGS(["", "--override_model_architecture", f"--hf_model_path={tokenizer}"])
    checkpoint = run.path / "checkpoints" / str(run.steps_saved() - 1) / "items"
    part = run.exported.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    where = {WEIGHTS: str(checkpoint), "base_output_directory": str(part), "run_name": run.name}
    to_huggingface.main(_arguments(recipe, **where))
    if recipe.of_conversations:
        _describe(part, Path(tokenizer), conversation_rows.thinks(run))
    part.rename(run.exported)


def _describe(exported: Path, published: Path, thinks: bool) -> None:
    """Have the result of conversations ask as its rows answer, and stop where the published model stops."""
    tokenizer: Any = AutoTokenizer.from_pretrained(published, **FROM_DISK)
    if settle(tokenizer, thinks):
        tokenizer.save_pretrained(exported)
    if (stops := published / "generation_config.json").exists():
        shutil.copy(stops, exported)


def _downloaded(recipe: Recipe, *files: str) -> str:
    source = recipe.sources[recipe.maxtext[WEIGHTS]]
    revision = source.revision
    return read(
        source,
        lambda: snapshot_download(
            source.name, revision=revision, allow_patterns=[*files], ignore_patterns=[*UNWANTED]
        ),
    )


def _arguments(recipe: Recipe, **settings: Any) -> list[str]:
    """The arguments of a converter: the recipe's settings, divided over all devices of this process."""
    on_cpu = {
        "hardware": "cpu",
        "attention": "dot_product",
        "skip_jax_distributed_system": True,
        # Otherwise MaxText would store the position in rows, which a conversion does not read.
        "dataset_type": "synthetic",
    }
    divided = {key: 1 for key in recipe.maxtext if key.startswith(("ici_", "dcn_"))}
    arguments = maxtext_arguments(recipe, **{**on_cpu, **divided, "ici_fsdp_parallelism": -1, **settings})
    # The converter reads the model's name with its quotes.
    return [
        argument.replace('"', "") if argument.startswith("model_name=") else argument
        for argument in arguments
    ]
