"""The recipe of a trial: the user's own, with few and short rows, few steps, and nothing that leaves here."""

import base64
import json
import re
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversations.chat_template import ChatTemplate
from finetune.dry_run import make_plan
from finetune.model.loading import as_model_allows, empty_model, load_processor
from finetune.rows.data import load_conversations, settle_for
from finetune.settings.recipe import Recipe
from finetune.settings.sections import Data
from finetune.settings.trl_fields import LIGER
from trial.small_adapter import make_small_adapter

if TYPE_CHECKING:
    from datasets import Dataset

# Two in the first process, and one or more in the process that resumes.
STEPS = 3
# Rows that are looked at for short ones. The vocabulary times the tokens is what a trial costs.
LOOKED_AT = 200
# Rows of a trial that packs them, which fill three sequences or more.
PACKED = 12
TEST_ROWS = 2
# Characters of a plain text, and half the tokens of its chunks.
CHARACTERS, CHUNK = 200, 16
ANSWER = 8
# So high that three steps show in what the model writes.
RATE = 0.01


def make_small_recipe(recipe: Recipe, model: Path, folder: Path) -> Recipe:
    """The recipe on the small model, with rows of its own in a file of `folder`."""
    recipe = as_model_allows(recipe)
    packs = recipe.training.packs
    batch = min(recipe.training.batch, 2)
    accumulation = min(recipe.training.accumulation_steps, 2 // batch)
    rows, test_rows = load_conversations(recipe.data, recipe.training.rows_seed)
    pictures = recipe.data.image is not None
    processor = load_processor(str(model), pictures, template=recipe.model.chat_template)
    count = PACKED if packs else STEPS * batch * accumulation
    settle_for(recipe.data, rows, processor)
    chosen, longest = _short_rows(rows, recipe, processor, count)
    held_out = test_rows.select(range(min(TEST_ROWS, len(test_rows)))) if test_rows else None
    data = _of_one_form(recipe.data)
    _write_rows(folder / "rows.jsonl", rows.select(chosen), held_out, data)
    tree = recipe.to_dict()
    tree["data"] = data.model_dump()
    tree["model"] |= {"name": str(model), "revision": None, "adapter": None, "adapter_revision": None}
    tree["data"] |= {
        "name": "",
        "config": None,
        "files": [str(folder / "rows.jsonl")],
        "split": "train",
        "revision": None,
        "rows": len(chosen),
        "test_rows": len(held_out or ()),
    }
    tree["training"] |= {
        "epochs": 1,
        "batch_size": batch,
        "accumulation_steps": accumulation,
        "learning_rate": RATE,
        "schedule": "constant",
        "warmup_steps": 0.0,
        "max_length": _length(recipe, packs, longest),
        "loader_processes": 0,
        "log_every_steps": 1,
        "save_every_steps": 1,
        "sharding": "none",
        "report_to": [],
        "push_to_hub": False,
        "hub_model_id": None,
    }
    # A trial has no GPU for the kernels.
    tree["training"]["trl"].pop(LIGER, None)
    if recipe.training.evaluate_every_steps:
        tree["training"]["evaluate_every_steps"] = 1
    if recipe.training.early_stopping_patience:
        tree["training"]["early_stopping_patience"] = 99
    tree["evaluation"] |= {"every_steps": None, "good": {}, "max_new_tokens": ANSWER}
    tree["evaluation"]["rows"] = min(recipe.evaluation.rows, TEST_ROWS)
    if recipe.lora and recipe.lora.target_modules:
        tree["lora"]["target_modules"] = _layers(recipe.lora.target_modules, recipe, model)
    if recipe.model.adapter:
        tree["model"]["adapter"] = make_small_adapter(Recipe.model_validate(tree), folder / "adapter")
    small = Recipe.model_validate(tree)
    tree["training"]["epochs"] = ceil(STEPS / make_plan(small, processes=1).steps)
    return Recipe.model_validate(tree)


def _short_rows(rows: "Dataset", recipe: Recipe, processor: Any, count: int) -> tuple[list[int], int]:
    """The places of the shortest of the first rows, and the number of tokens of the longest of these."""
    if recipe.data.image:
        return [*range(min(count, len(rows)))], 0
    if recipe.data.text:
        # Short enough that texts are cut into chunks.
        return [*range(min(count, len(rows)))], CHUNK
    template, limit = ChatTemplate(processor), recipe.training.max_length
    tokens = []
    for at in range(min(LOOKED_AT, len(rows))):
        row = rows[at]
        parts = template.rows([*row["prompt"], *row["completion"]], row.get("tools"))
        length = max(len(part.tokens) for part in parts)
        if limit is None or length <= limit:
            tokens.append((length, at))
    chosen = sorted(tokens)[:count]
    # None of the first rows is short enough: the run itself says what is left.
    if not chosen:
        return [*range(min(count, len(rows)))], limit or 0
    return [at for _, at in chosen], chosen[-1][0]


def _length(recipe: Recipe, packs: bool, longest: int) -> int | None:
    """The length of a sequence: two rows, so that a pack has several."""
    limit = recipe.training.max_length
    if not (packs or recipe.data.text):
        return limit
    return min(limit or 2 * longest, 2 * longest)


def _write_rows(file: Path, rows: "Dataset", test_rows: "Dataset | None", data: Data) -> None:
    """Write rows in the columns that the recipe names. Plain texts are cut."""
    from datasets import concatenate_datasets

    whole = concatenate_datasets([part.with_format(None) for part in (rows, test_rows) if part])
    file.write_text("".join(f"{json.dumps(_raw(row, data))}\n" for row in whole))


def _of_one_form(data: Data) -> Data:
    """The section for rows of several data sets in one file."""
    if not data.sets or data.text:
        return data.model_copy(update={"sets": []})
    columns = {"messages": "messages", "reply": "", "prompt": "", "fields": {}, "system": None}
    image = "messages" if data.image else None
    return data.model_copy(update=columns | {"image": image, "sets": []})


def _raw(stored: dict[str, Any], data: Data) -> dict[str, Any]:
    """A row as it would stand in a file, with its pictures in it."""
    row = json.loads(stored["row"])
    turns = row["turns"]
    if data.text:
        return {data.text: turns[0]["content"][:CHARACTERS]}
    pictures = [_data_uri(picture) for picture in stored.get("pictures") or ()]
    columns = {data.image: pictures} if data.image else {}
    if not data.messages:
        pair = {data.rejected: [row["rejected"]], data.reply: turns[-1:]} if data.rejected else {}
        return {**row["values"], data.reply: turns[-1]["content"], **columns, **pair}
    if data.image == data.messages:
        places = iter(pictures)
        parts = [part for turn in turns for part in turn["content"] if isinstance(turn["content"], list)]
        for place in [part for part in parts if part["type"] == "image"]:
            place["image"] = next(places)
    tools = {data.tools: row["tools"]} if data.tools else {}
    if not data.rejected:
        return {**columns, **tools, data.messages: turns}
    if not data.reply:
        return {**tools, data.messages: turns, data.rejected: [*turns[:-1], row["rejected"]]}
    return {**tools, data.messages: turns[:-1], data.reply: turns[-1:], data.rejected: [row["rejected"]]}


def _data_uri(picture: dict[str, Any]) -> str:
    content = picture["bytes"] or Path(picture["path"]).read_bytes()
    return f"data:image/any;base64,{base64.b64encode(content).decode()}"


def _layers(pattern: str, recipe: Recipe, model: Path) -> str:
    """The pattern for layers of the small model.

    A recipe's pattern may name numbers of layers that this model does not have. Then the same layers match
    with any number.
    """
    small = empty_model(recipe.model.model_copy(update={"name": str(model), "revision": None}))
    if any(re.fullmatch(pattern, name) for name, _ in small.named_modules()):
        return pattern
    names = [name for name, _ in empty_model(recipe.model).named_modules() if re.fullmatch(pattern, name)]
    return "|".join(sorted({re.sub(r"\d+", r"\\d+", re.escape(name)) for name in names}))
