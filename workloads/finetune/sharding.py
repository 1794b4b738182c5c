"""FSDP2: the frozen base model and the adapter in shards, one for each process, through accelerate."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from torch.distributed.checkpoint import FileSystemReader, load
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers import AutoModelForCausalLM, Trainer

from finetune.model import compare_adapters
from finetune.recipe import Training

# Where accelerate puts the adapter's shards in a checkpoint of the trainer.
SHARDS = "pytorch_model_fsdp_0"


def is_sharded(training: Training) -> bool:
    """Whether there is anything to share out: a single process keeps the whole model."""
    return training.sharding == "fsdp2" and int(os.environ.get("WORLD_SIZE", "1")) > 1


def sharding_arguments(training: Training) -> dict[str, Any]:
    """The trainer's settings of it; empty without sharding.

    Activation checkpointing stays the trainer's own: accelerate's for FSDP2 draws other dropout masks when it
    computes a layer again than it has drawn the first time.
    """
    if not is_sharded(training):
        return {}
    return {
        "fsdp": True,
        "fsdp_config": {
            "version": 2,
            "reshard_after_forward": True,
            # Each process writes its own part of a checkpoint, none has to hold the whole.
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
        },
    }


@contextmanager
def loading_once(sharded: bool) -> Generator[None]:
    """While a model is loaded: one process of a node reads the weights, the others get theirs by sharding.

    Otherwise each of 8 processes of a node would hold 24 GB for a model of 12 billion parameters.
    """
    if sharded:
        # What transformers asks for beside the trainer's setting; `accelerate launch` would have set it.
        os.environ["ACCELERATE_USE_FSDP"] = "true"
    try:
        yield
    finally:
        os.environ.pop("ACCELERATE_USE_FSDP", None)


def shard_by_layer(trainer: Trainer) -> None:
    """Make a unit of sharding of every layer class that the model names as one and has.

    A model of text and vision also names parts that this one of its kind was built without.
    """
    model: Any = trainer.model
    present = {type(module).__name__ for module in model.modules()}
    plugin: Any = trainer.accelerator.state.fsdp_plugin
    plugin.transformer_cls_names_to_wrap = sorted(present & set(model._no_split_modules))
    _gather_with_input(model.get_input_embeddings())


def _gather_with_input(embedding: torch.nn.Module) -> None:
    """Have the embedding's unit gathered whenever the embedding runs.

    Its unit holds the output layer too, which has the same weights, and is gathered by the first of them to
    run after all of them have run. The output layer never does, the loss only takes its weights: from the
    second step on torch 2.10 would look tokens up in a shard.
    """

    def gather(module: torch.nn.Module, _: Any) -> None:
        if isinstance(module, FSDPModule):
            module.unshard()

    embedding.register_forward_pre_hook(gather)


def gather_adapter(trainer: Trainer, directory: Path) -> None:
    """Write the trained adapter, whole, into `directory` of rank 0 and check it; to be called on every rank.

    Trainer.save_model writes nothing while checkpoints are sharded. Raises RuntimeError when what has been
    written does not load, or not as it was trained.
    """
    model: Any = trainer.model
    # The adapter alone: what is frozen would be gathered for nothing.
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
    weights = get_model_state_dict(model, options=options)
    if dist.get_rank() > 0:
        return
    _save_adapter(trainer, directory, weights)
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(model.config)
    # A base model of memory that nobody touches: for the adapter's names and shapes its values do not matter.
    saved = PeftModel.from_pretrained(skeleton.to_empty(device="cpu"), str(directory))
    compare_adapters(
        get_peft_model_state_dict(model, state_dict=weights), get_peft_model_state_dict(saved), directory
    )


def restore_adapter(trainer: Trainer, checkpoint: Path, directory: Path) -> None:
    """Write the adapter of a sharded checkpoint, whole, into `directory`, before the model is sharded."""
    model: Any = trainer.model
    weights = get_peft_model_state_dict(model)
    load({"model": weights}, storage_reader=FileSystemReader(checkpoint / SHARDS), no_dist=True)
    set_peft_model_state_dict(model, weights)
    _save_adapter(trainer, directory)


def _save_adapter(trainer: Trainer, directory: Path, weights: dict[str, Any] | None = None) -> None:
    model: Any = trainer.model
    model.save_pretrained(str(directory), state_dict=weights)
    processor: Any = trainer.processing_class
    processor.save_pretrained(directory)
