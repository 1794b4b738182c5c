"""The result of a run: the trained model, from a checkpoint or from memory, and what is published of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from finetune.model.all_weights import load_saved, save_whole
from finetune.model.loading import load_adapted
from finetune.model.sharding import is_sharded
from finetune.results.check import Check
from finetune.results.merge import complete_model, merge_adapter
from finetune.results.template import template_of
from finetune.results.weights import keep_base
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder, adapter_in
from shared.errors import InputError
from shared.weather import in_one_line

if TYPE_CHECKING:
    import torch
    from transformers import TrainingArguments


def load_trained(recipe: Recipe, directory: Path, device: "torch.device") -> Any:
    """The trained model on `device`, from the files of a checkpoint or of the best evaluation."""
    if recipe.lora:
        return load_adapted(recipe.model, directory, device)
    return load_saved(recipe.model, directory, device)


def check_result(recipe: Recipe, run: RunFolder, checkpoint: Path) -> None:
    """Raises InputError when a checkpoint has no adapter that can be published."""
    if recipe.lora and not (checkpoint / "adapter_model.safetensors").is_file():
        raise InputError(
            f"{checkpoint.name} is from an older version, without its adapter in one piece: delete "
            f"{run.folder.uri}/{checkpoint.name} and start again, it goes on from the checkpoint before"
        )


def publish_result(
    recipe: Recipe,
    run: RunFolder,
    published: Path,
    trained: Path,
    model: Any,
    arguments: "TrainingArguments",
    summary: dict[str, Any],
    check: Check,
    processor: Any,
) -> None:
    """Publish adapter or model, or both, from rank 0. Call it on every rank.

    The adapter goes first: it stays there when the base model cannot take it in.

    Args:
        published: Directory of the base model.
        trained: Directory of the checkpoint, or of the best evaluation, whose result is published.
        model: The trained model, if it is in memory.
        summary: Content of the run's COMPLETE.json.
        check: Is asked of what is published, and kept.
        processor: The model's processor or tokenizer, whose chat template the result has.
    """
    folder, first = Path(str(arguments.output_dir), "model"), arguments.process_index == 0
    if not recipe.lora and model is not None:
        save_whole(model, folder)
    if recipe.lora and recipe.training.result == "adapter" and model is not None:
        check.ask(model)
    if not first:
        return
    results = {"adapter": run.upload_result("adapter", adapter_in(trained))} if recipe.lora else {}
    kept = f"{run.folder.uri}/adapter is whole" if recipe.lora else "the newest checkpoint is kept"
    with in_one_line(f"the model is not published ({kept})"):
        if not recipe.lora and model is None:
            save_whole(load_saved(recipe.model, trained, arguments.device), folder)
        if not recipe.lora:
            asked = template_of(processor)
            check.ask(complete_model(recipe.model, published, asked, folder, arguments.device))
        elif recipe.training.result == "model":
            whole = model if _is_whole(recipe) else None
            check.ask(merge_adapter(recipe.model, published, trained, folder, arguments.device, whole))
        else:
            _keep_base(recipe, run, published)
    if folder.exists():
        results["model"] = run.upload_result("model", sorted(folder.iterdir()))
    check.keep()
    run.finish(results, summary)


def _is_whole(recipe: Recipe) -> bool:
    """Whether a process has all weights of the base model as they are merged."""
    return recipe.model.quantization == "none" and not is_sharded(recipe.training)


def _keep_base(recipe: Recipe, run: RunFolder, published: Path) -> None:
    """Keep the base model where a server of the adapter looks for it.

    A disk gets no second copy, and no server adds an adapter to other weights than it was trained on.
    """
    model = recipe.model
    if model.on_hub and model.quantization == "none" and run.storage.startswith("gs://"):
        keep_base(model, published, run.storage)
