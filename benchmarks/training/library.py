"""A recipe's training as somebody who knows trl well would write it, with trl's own means.

Model, rows, adapter, rate, optimizer, length and the rows of a step are the recipe's. trl makes the tokens,
PEFT the layers. Rows of similar length are padded to one batch, or on a GPU packed, with a kernel that
attends within the rows.
"""

from pathlib import Path
from typing import Any, cast

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import BitsAndBytesConfig, PrinterCallback
from trl import SFTConfig, SFTTrainer

from finetune.model.adapter import linear_layers
from finetune.model.loading import empty_model, load_processor
from finetune.settings.lora import Lora
from finetune.settings.recipe import Recipe

VARLEN = "flash_attention_2"


def library_trainer(
    recipe: Recipe,
    rows: Dataset,
    test_rows: Dataset,
    workspace: Path,
    rows_a_batch: int,
    packed: bool,
    liger: bool = False,
) -> SFTTrainer:
    """A trainer over conversations, in batches of so many rows, or packed like the recipe's.

    `liger` replaces layers by the fused kernels of the package liger-kernel.
    """
    lora = cast(Lora, recipe.lora)
    pictures = recipe.data.image is not None
    arguments = _arguments(recipe, workspace, rows_a_batch, packed, liger)
    trainer = SFTTrainer(
        model=recipe.model.name,
        args=arguments,
        train_dataset=_plain(rows, pictures),
        eval_dataset=_plain(test_rows, pictures),
        processing_class=load_processor(recipe.model.name, pictures),
        peft_config=LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=lora.target_modules or linear_layers(empty_model(recipe.model)),
            task_type="CAUSAL_LM",
        ),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _arguments(recipe: Recipe, workspace: Path, rows_a_batch: int, packed: bool, liger: bool) -> SFTConfig:
    """The recipe's settings in the library's words."""
    training, on_gpu = recipe.training, torch.cuda.is_available()
    pictures = recipe.data.image is not None
    return SFTConfig(
        output_dir=str(workspace / "library"),
        model_init_kwargs=_model_options(recipe, packed),
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.batch if packed else rows_a_batch,
        # The test rows in batches as large as the recipe's.
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=training.accumulation_steps,
        packing=packed,
        # A picture has no length before it is read, and all have the same number of tokens.
        train_sampling_strategy="random" if pictures or packed else "group_by_length",
        # The columns of a row with a picture are computed when it is read.
        remove_unused_columns=not pictures,
        max_length=training.max_length,
        completion_only_loss=True,
        learning_rate=training.learning_rate,
        lr_scheduler_type=training.schedule,
        optim=training.optimizer,
        max_grad_norm=training.max_grad_norm,
        gradient_checkpointing=training.recomputes,
        bf16=recipe.model.precision == "bf16",
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        seed=training.seed,
        use_liger_kernel=liger,
        logging_steps=training.log_every_steps,
        save_strategy="no",
        disable_tqdm=True,
        report_to="none",
    )


def _model_options(recipe: Recipe, packed: bool) -> dict[str, Any]:
    """Options of transformers' `from_pretrained`."""
    options: dict[str, Any] = {
        "dtype": "bfloat16" if recipe.model.precision == "bf16" else "float32",
    }
    if packed:
        options["attn_implementation"] = VARLEN
    if recipe.model.quantization == "nf4":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    return options


def _plain(rows: Dataset, pictures: bool) -> Dataset:
    """The conversations. trl reads text only from rows without a transform."""
    return rows if pictures else Dataset.from_list(list(rows))
