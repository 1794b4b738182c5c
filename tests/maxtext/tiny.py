"""MaxText's smallest model, a small data set, and a recipe for both."""

import random
from pathlib import Path
from typing import Any

import yaml

STEPS = 12
PERIOD = 4
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "one",
    "more",
    "who",
    "ran",
    "far",
    "from",
    "home",
]


def make_recipe(path: Path, **settings: Any) -> Path:
    """A recipe file for gpt3-52k: a checkpoint every PERIOD steps, synthetic data by default."""
    tiny = {
        "model_name": "gpt3-52k",
        "dataset_type": "synthetic",
        "max_target_length": 32,
        "per_device_batch_size": 2,
        "steps": STEPS,
        "checkpoint_period": PERIOD,
        # A test that kills a worker right after a checkpoint needs the checkpoint to be complete.
        "async_checkpointing": False,
        "enable_tensorboard": False,
        # Keeps the compiled program out of the home directory.
        "jax_cache_dir": "",
    }
    path.write_text(yaml.safe_dump({"maxtext": {**tiny, **settings}}))
    return path


def data_settings(directory: Path) -> dict[str, Any]:
    """Write rows of text and a tokenizer, and return the settings that train on them."""
    make_rows(directory)
    make_tokenizer(directory / "tokenizer")
    return {
        "dataset_type": "grain",
        "grain_file_type": "parquet",
        "grain_train_files": str(directory / "rows-*.parquet"),
        "grain_worker_count": 0,
        "tokenizer_type": "huggingface",
        "tokenizer_path": str(directory / "tokenizer"),
    }


def make_rows(directory: Path, seed: int = 7, rows: int = 200, broken: int | None = None) -> None:
    """Write four files of so many rows, so that each of two processes reads two.

    The first row of the file number `broken` is no text.
    """
    import pyarrow
    import pyarrow.parquet

    choice = random.Random(seed)
    for number in range(4):
        texts = [" ".join(choice.choices(WORDS, k=choice.randint(5, 40))) for _ in range(rows)]
        texts = [None, *texts[1:]] if number == broken else texts
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), directory / f"rows-{number}.parquet")


def make_tokenizer(directory: Path) -> None:
    """A tokenizer with one token per word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = ["<unk>", "<s>", "</s>", "<pad>", *sorted(set(WORDS))]
    tokenizer = Tokenizer(models.WordLevel({token: number for number, token in enumerate(tokens)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(directory)
