"""FSDP2 through accelerate: each process holds a shard of the model, and of the adapter if there is one."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator, ParallelismConfig
from accelerate.utils import broadcast_object_list, fsdp_utils, gather_object
from peft import get_peft_model_state_dict
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers import Trainer

from finetune.model.loading import verify_adapter
from finetune.settings.sections import Training

_send_weights = fsdp_utils.fsdp2_load_full_state_dict


def is_sharded(training: Training) -> bool:
    """Whether the model is sharded: the recipe asks for it, and there is more than one process."""
    return training.sharding == "fsdp2" and int(os.environ.get("WORLD_SIZE", "1")) > 1


def sharding_arguments(training: Training) -> dict[str, Any]:
    """The trainer's settings for sharding, empty without it.

    Activation checkpointing is left to the trainer, because accelerate's version for FSDP2 draws new dropout
    masks when it recomputes a layer.
    """
    if not is_sharded(training):
        return {}
    processes, on_node = (int(os.environ[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    parallel = {}
    if 1 < on_node < processes:
        # Shards move within a node in every layer. Between nodes only gradients do, once a step.
        nodes = processes // on_node
        parallel["parallelism_config"] = ParallelismConfig(dp_replicate_size=nodes, dp_shard_size=on_node)
    return parallel | {
        "fsdp": True,
        "fsdp_config": {
            "version": 2,
            "reshard_after_forward": True,
            # Each process writes its own part of a checkpoint, so that none must hold all of it.
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
        },
    }


@contextmanager
def loaded_by_one_process(sharded: bool) -> Generator[None]:
    """In this context one process per node reads the weights, and the others receive their shards from it.

    Otherwise each of a node's 8 processes would hold all 24 GB of a model of 12 billion parameters.
    """
    if sharded:
        # transformers reads this variable too, which `accelerate launch` would set.
        os.environ["ACCELERATE_USE_FSDP"] = "true"
    try:
        yield
    finally:
        os.environ.pop("ACCELERATE_USE_FSDP", None)


def shard_by_layer(trainer: Trainer) -> None:
    """Shard by the layer classes that the model names in `_no_split_modules`.

    The class of a text and vision model names the layers of both parts, even when the model was built without
    one part. Names of absent layers are left out.
    """
    model: Any = trainer.model
    present = {type(module).__name__ for module in model.modules()}
    plugin: Any = trainer.accelerator.state.fsdp_plugin
    plugin.transformer_cls_names_to_wrap = sorted(present & set(model._no_split_modules))
    if plugin.mixed_precision_policy:
        # accelerate would sum the gradients of all processes in bf16.
        plugin.mixed_precision_policy = replace(plugin.mixed_precision_policy, reduce_dtype=torch.float32)
    _gather_before_forward(model.get_input_embeddings())
    patched: Any = fsdp_utils
    patched.fsdp2_load_full_state_dict = _send_weights_and_buffers


def _send_weights_and_buffers(
    accelerator: Accelerator, model: torch.nn.Module, weights: dict[str, torch.Tensor], **options: Any
) -> torch.nn.Module:
    """Send each rank its shards of rank 0's weights, and all of its buffers. Takes the place of accelerate's.

    accelerate 1.15 fails at a model whose saved weights include buffers, which are not sharded
    (https://github.com/huggingface/accelerate/issues/3898). Gemma 4 has one in every layer.
    """
    buffers = {
        f"{path}.{name}".removeprefix("."): (module, name)
        for path, module in model.named_modules()
        for name in module._buffers.keys() - module._non_persistent_buffers_set
    }
    for module, name in buffers.values():
        # Left out of the model's state for accelerate, which sends all that is in it.
        module._non_persistent_buffers_set.add(name)
    _send_weights(accelerator, model, weights, **options)
    values = {key: weights[key].cpu() for key in buffers} if accelerator.is_main_process else None
    (values,) = broadcast_object_list([values])
    for key, (module, name) in buffers.items():
        module.register_buffer(name, values[key].to(accelerator.device))
    return model


def _gather_before_forward(embedding: torch.nn.Module) -> None:
    """Gather the embedding's weights before each of its forward passes.

    FSDP puts the embedding and the output layer, which share their weights, into one unit. It gathers a unit
    again only after all its layers have run, and the output layer never runs: the loss uses its weights
    directly. Without this hook torch 2.10 would look up tokens in a shard from the second step on.
    """

    def gather(module: torch.nn.Module, _: Any) -> None:
        if isinstance(module, FSDPModule):
            module.unshard()

    embedding.register_forward_pre_hook(gather)


@contextmanager
def gathered_for_answers(model: Any, precision: torch.dtype) -> Generator[None]:
    """In this context a sharded model keeps the weights that it has gathered. Enter it on every rank.

    An answer runs every layer once per token, and would gather all weights again for each of them. A model
    that does not fit on every rank stays sharded. On exit each rank has its shards alone.

    Args:
        model: Any model. One that is not sharded stays as it is.
        precision: Number format of gathered weights: the forward pass computes in it.
    """
    if not isinstance(model, FSDPModule) or not all(gather_object([_fits(model, precision)])):
        yield
        return
    model.set_reshard_after_forward(False)
    try:
        yield
    finally:
        model.set_reshard_after_forward(True)
        # accelerate leaves these two gathered for the backward pass, which begins with them.
        for unit in (model, model.get_output_embeddings()):
            if isinstance(unit, FSDPModule):
                unit.set_reshard_after_forward(False, recurse=False)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def _fits(model: Any, precision: torch.dtype) -> bool:
    """Whether the whole model takes at most half of this process's free memory.

    The other half is for the keys and values of the tokens. The memory of a CPU is not asked for: only
    rehearsals shard there.
    """
    if model.device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(model.device)
    # torch keeps freed memory for its next tensors.
    free += torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    weights = sum(weight.numel() for weight in model.parameters())
    return 2 * weights * precision.itemsize <= free


def save_gathered_adapter(model: Any, processor: Any, directory: Path) -> None:
    """Write the trained adapter in one piece, from rank 0, beside its shards. Call it on every rank.

    The trainer writes only shards.
    """
    # Gathers the adapter without the frozen weights.
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
    weights = get_model_state_dict(model, options=options)
    if dist.get_rank() == 0:
        model.save_pretrained(str(directory), state_dict=weights)
        processor.save_pretrained(directory)
        verify_adapter(get_peft_model_state_dict(model, state_dict=weights), directory)
