"""What was published is loaded as its users load it, and its logits are compared with the trained model's."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from conversations.chat_template import ChatTemplate
from conversations.texts import token_lists
from finetune.model.families import auto_class
from finetune.model.loading import load_model, load_processor
from finetune.model.plain import read_config
from finetune.results.result import load_trained
from finetune.rows.data import load_conversations, settle_for
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder
from shared.errors import InputError
from shared.model_files import FROM_DISK

# Tokens whose logits are compared: those of a large vocabulary take half a megabyte each.
TOKENS = 64
# Sound merges have at most 0.003 of it. A wrong one has as much as the training changed, and more.
SHARE, ROUNDING = 0.2, 1e-3
# In nats a token. Three steps at the trial's rate come to 0.005 and more.
NOTHING = 1e-7


def compare_published(recipe: Recipe, folder: Path, name: str) -> None:
    """Load every result of a run.

    Raises InputError when the training did not change the model, or when a result is another model.
    """
    run, device = RunFolder(str(folder), name), torch.device("cpu")
    path = Path(run.folder.path)
    tokens = _tokens(recipe)
    base = load_model(recipe.model, device)
    if recipe.model.quantization == "nf4":
        base.dequantize()
    before = _logits(base, tokens)
    if recipe.lora:
        trained = PeftModel.from_pretrained(base, str(path / "adapter"))
    else:
        with tempfile.TemporaryDirectory() as checkpoints:
            newest = run.fetch_newest(Path(checkpoints))
            trained = load_trained(recipe, Path(checkpoints, newest.name if newest else ""), device)
    after = _logits(trained, tokens)
    gain = _distance(after, before)
    key = "lora.target_modules" if recipe.lora else "training"
    if gain <= NOTHING:
        raise InputError(
            f"{key}: the training changes nothing that the model writes; adapt layers through which text goes"
        )
    if "model" not in recipe.results:
        return
    error = _distance(after, _logits(_published(path / "model"), tokens))
    # A comparison with a number that is none is false.
    if error <= SHARE * gain + ROUNDING:
        return
    problem = (
        f"the published model writes something else than the trained one (by {error:.2g} nats a token; the "
        f"training changed {gain:.2g})"
    )
    if not recipe.lora:
        raise InputError(
            f"{problem}: take another model.name, or add lora and set training.result to adapter"
        )
    raise InputError(
        f"{problem}: lora.target_modules {recipe.lora.target_modules} names a weight that cannot take the "
        "adapter in, such as an embedding that is also the output; leave it out, or set training.result to "
        "adapter"
    )


def _published(folder: Path) -> Any:
    config = read_config(folder)
    return auto_class(config).from_pretrained(folder, config=config, dtype="auto", **FROM_DISK)


def _tokens(recipe: Recipe) -> torch.Tensor:
    """The beginning of a row of text. A picture is left out, since its tokens alone mean nothing."""
    rows, _ = load_conversations(recipe.data, recipe.training.rows_seed)
    pictures = recipe.data.image is not None
    processor = load_processor(recipe.model.name, pictures, template=recipe.model.chat_template)
    if recipe.data.text:
        return torch.tensor([token_lists(rows.select([0]), processor)[0][:TOKENS]])
    settle_for(recipe.data, rows, processor)
    row = rows[0]
    template = ChatTemplate(getattr(processor, "tokenizer", processor))
    return torch.tensor(
        [template.row([*row["prompt"], *row["completion"]], row.get("tools")).tokens[-TOKENS:]]
    )


def _logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=tokens).logits[0].float().log_softmax(-1)


def _distance(trained: torch.Tensor, other: torch.Tensor) -> float:
    """Kullback-Leibler divergence of another model's tokens from the trained model's, in nats a token."""
    return float((trained.exp() * (trained - other)).sum(-1).mean())
