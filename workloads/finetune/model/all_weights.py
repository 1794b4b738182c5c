"""Training of all weights: which ones a run trains, its checkpoints, and the model that it saves."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as shards
from safetensors import safe_open
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule

from finetune.model.families import auto_class, language_part
from finetune.model.loading import load_model
from finetune.settings.sections import Model
from shared.errors import PassingError
from shared.model_files import FROM_DISK

# The folder with the weights of a sharded checkpoint.
SHARDS = "pytorch_model_fsdp_0"


def choose_weights(model: Any, pictures: bool) -> None:
    """Have a run train all weights of the language model, and with pictures those between it and them.

    The encoder of pictures stays as it was published. It may have layers that no row reaches, whose missing
    gradients would end the run.
    """
    model.requires_grad_(pictures)
    encoder = model.get_encoder(modality="image")
    if encoder is not model:
        encoder.requires_grad_(False)
    for part in (language_part(model), model.get_input_embeddings(), model.get_output_embeddings()):
        part.requires_grad_(True)


def _count_infinite(tensor: torch.Tensor) -> int:
    return int((~tensor.isfinite()).sum())


def check_weights(model: Any, checkpoint: Path) -> None:
    """Raises PassingError unless the saved weights are finite and all there.

    A rank checks its own part of a sharded checkpoint, in memory. Bounds of a layer, which are no parameters,
    may be infinite: Gemma 4 has such.
    """
    states = model.state_dict()
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    unique = {weight.data_ptr(): weight for weight in map(_local, states.values())}
    infinite = sum(map(_count_infinite, (_local(states[name]) for name in states.keys() - parameters)))
    tensors = unique.values() if isinstance(model, FSDPModule) else _tensors(checkpoint)
    count = 0
    for tensor in tensors:
        count += tensor.numel()
        infinite -= _count_infinite(tensor)
    if infinite < 0:
        raise PassingError(f"{checkpoint.name} has a weight that is not finite")
    wanted = sum(weight.numel() for weight in unique.values())
    if count != wanted:
        raise PassingError(f"{checkpoint.name} has {count:,} weights, and the model {wanted:,}")


def load_into(model: Any, checkpoint: Path) -> None:
    """Load an unsharded checkpoint into the model that is trained.

    The trainer would take weights by their names in the files, which are not always those in the model, and
    leave out what it does not find.
    """
    saved = auto_class(model.config).from_pretrained(checkpoint, dtype=model.dtype, **FROM_DISK)
    model.load_state_dict(saved.state_dict())


def load_saved(model: Model, directory: Path, device: torch.device) -> Any:
    """The trained model on `device`, from a checkpoint of any number of processes or from `save_whole`."""
    if not (directory / SHARDS).is_dir():
        saved = model.model_copy(update={"name": str(directory), "revision": None})
        return load_model(saved, device).to(device)
    trained = load_model(model, device).to(device)
    # Into the model's own tensors.
    shards.load({"model": trained.state_dict()}, checkpoint_id=directory / SHARDS, no_dist=True)
    return trained


def save_whole(model: Any, directory: Path) -> None:
    """Write the weights in bf16, as a model that transformers loads, from rank 0. Call it on every rank."""
    weights: Mapping[str, Any] = model.state_dict()
    # Names that share a weight still share it below, so that it is written once.
    address = {name: _local(weight).data_ptr() for name, weight in weights.items()}
    if isinstance(model, FSDPModule):
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = cast(Mapping[str, Any], get_model_state_dict(model, options=whole))
    if dist.is_initialized() and dist.get_rank():
        return
    converted = {address[name]: weight.bfloat16() for name, weight in weights.items()}
    model.save_pretrained(directory, state_dict={name: converted[address[name]] for name in weights})


def _local(weight: Any) -> torch.Tensor:
    """This rank's part of a weight."""
    return getattr(weight, "_local_tensor", weight)


def _tensors(directory: Path) -> Iterator[torch.Tensor]:
    for file in sorted(directory.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            yield from map(tensors.get_tensor, tensors.keys())
