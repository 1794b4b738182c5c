"""Trains a preference between two replies: trl's DPO with the run's own rows, model and adapter."""

import shutil
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer

from finetune.model.adapter import lora_config
from finetune.model.first_adapter import REFERENCE, hold_reference, load_first_weights
from finetune.model.loading import load_model, without_router_scores
from finetune.run.trainer import balance_experts
from finetune.settings.recipe import Recipe
from finetune.settings.sections import Training
from finetune.settings.trl_settings import checked, errors_of_trl
from finetune.storage.adapter_files import AdapterFiles

BETA = 0.1
# Settings of the fine-tune that trl's DPOConfig does not have.
_NOT_OF_PAIRS = ("completion_only_loss", "packing")


def pair_arguments(own: dict[str, Any], training: Training) -> DPOConfig:
    """The trainer's settings, from those of a fine-tune."""
    own = {name: value for name, value in own.items() if name not in _NOT_OF_PAIRS}
    # Longer pairs have been left out.
    own |= {"beta": training.beta or BETA, "max_length": None}
    return DPOConfig(**own, **checked(training.trl, DPOConfig))


def build_pair_trainer(
    recipe: Recipe,
    arguments: DPOConfig,
    processor: Any,
    rows: Dataset,
    test_rows: Dataset | None,
    callbacks: list[TrainerCallback],
    first: AdapterFiles | None,
) -> DPOTrainer:
    """The trainer of a recipe over tokens of pairs, with the model, and perhaps an adapter, from disk."""
    assert recipe.lora
    model = load_model(recipe.model, arguments.device)
    balance_experts(arguments, model, recipe)
    with errors_of_trl(recipe.training):
        trainer = PairTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=test_rows,
            processing_class=processor,
            peft_config=lora_config(recipe.lora, model, recipe.model.revision),
            callbacks=callbacks,
        )
    adapted: Any = trainer.model
    if first:
        load_first_weights(first.folder, adapted)
        hold_reference(adapted)
    # As in a fine-tune: the trainer casts the adapter of a 4-bit model to bf16, and a resumed run would not.
    for weight in adapted.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    trainer.remove_callback(PrinterCallback)
    return trainer


class PairTrainer(DPOTrainer):
    """The library's trainer over pairs that are tokens already. Only the trained adapter is saved."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        without_router_scores(self.model)

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write a checkpoint without the reference, which every start reads from its own files."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(str(output_dir or self.args.output_dir), REFERENCE), ignore_errors=True)
