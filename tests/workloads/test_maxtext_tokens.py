"""The MaxText driver makes the tokens of the GPU trainer and trains the same ones, for many templates."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_one_prompt import conversation
from tiny_families import SMALL, templates, tokenizer_of

from finetune.model.loading import load_processor
from finetune.rows.data import load_conversations, settle_for
from finetune.rows.token_file import NOT_TRAINED
from finetune.rows.tokens import to_tokens
from finetune.settings.sections import Data
from maxtext_driver.conversation_rows import rows_of
from maxtext_driver.recipe import load_recipe
from shared.errors import InputError

LENGTH = 4096
# Llama 3 writes no tools, and Qwen 3 thinks.
QUICK = ("llama3", "qwen3")
# Rounds, a system message, and a kind of test_one_prompt.
KINDS = {
    "rounds": (3, False, "plain"),
    "system": (2, True, "plain"),
    "thoughts": (2, False, "key"),
    "tools": (2, False, "tools"),
}


NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in sorted(templates())]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the configuration of a model."""
    from transformers import LlamaConfig

    LlamaConfig(**SMALL).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def on_gpus(rows: Path, model: Path) -> list[tuple[list[int], list[bool]]]:
    """The tokens of the GPU trainer, and which of them it trains."""
    data = Data(files=[str(rows)], messages="messages", tools="tools")
    read, _ = load_conversations(data, seed=7)
    processor = load_processor(str(model), pictures=False)
    settle_for(data, read, processor)
    tokens = to_tokens(read, processor, LENGTH)
    return [(row["input_ids"], [label != NOT_TRAINED for label in row["labels"]]) for row in tokens]


def on_tpus(rows: Path, model: Path) -> list[tuple[list[int], list[bool]]]:
    """The same of the MaxText driver."""
    settings = {
        "model_name": "llama3.1-8b",
        "load_parameters_path": "hf://me/model",
        "use_sft": True,
        "dataset_type": "grain",
        "grain_train_files": str(rows),
        "train_data_columns": ["messages", "tools"],
        "max_target_length": LENGTH,
    }
    recipe = rows.with_name("recipe.yaml")
    recipe.write_text(yaml.safe_dump({"maxtext": settings}))
    parts = rows_of(load_recipe(str(recipe)), model).parts
    return [(row.tokens, row.trained) for row in parts["train"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in sorted(templates())],
)
def test_a_conversation_has_the_same_tokens_on_tpus_and_on_gpus(
    name: str, kind: str, folder: Path, tmp_path: Path
) -> None:
    tokenizer_of(templates()[name]).save_pretrained(folder)
    rounds, system, form = KINDS[kind]
    lines: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        messages, tools = conversation(number, system, form)
        lines.append({"messages": messages, "tools": tools})
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    try:
        expected = on_gpus(rows, folder)
    except InputError as refusal:
        with pytest.raises(InputError) as other:
            on_tpus(rows, folder)
        assert str(other.value) == str(refusal)
        return
    tokens = on_tpus(rows, folder)
    assert tokens == expected
    assert all(any(trained) and not all(trained) for _, trained in tokens)
