"""What a recipe's training step takes of a GPU's memory: computed by `make gpu-fit`, not measured."""

import json
from typing import Final

from cloud.machines import Accelerator
from workloads.finetune.recipe import FIT, load_recipe

# Shares of the memory from which on a run is doubtful, and hopeless: the CUDA context, the kernels' own
# buffers and what the allocator cannot use again are not in the figures.
_DOUBTFUL: Final = 0.9
_HOPELESS: Final = 1.0


def doubt_of(name: str, gpu: Accelerator, gpus: int) -> str:
    """What speaks against a recipe on so many GPUs or more; empty for nothing.

    Raises:
        ValueError: When a step takes more than there is.
    """
    recipe = load_recipe(name)
    figures = json.loads(FIT.read_text()).get(name, {})
    # More processes take no more than fewer; the recipe's own length is the first that was computed.
    points = [
        point
        for point in (figures["points"] if figures.get("digest") == recipe.digest else ())
        if point["processes"] <= gpus and point["max_length"] == recipe.training.max_length
    ]
    if not points:
        unknown = f"whether {name} fits into the memory of each {gpu.name} is not known"
        return f"{unknown}: nothing was computed for it as it is"
    needed_gb = sum(max(points, key=lambda point: point["processes"])["bytes"].values()) / 1e9
    share = needed_gb / gpu.memory_gb
    text = (
        f"{name} takes {needed_gb:.1f} GB of the {gpu.memory_gb} GB of each {gpu.name} "
        f"({share:.0%}; computed, not measured)"
    )
    if share > _HOPELESS:
        raise ValueError(
            f"{text}; take another recipe, or lower batch_size or max_length in a copy of this one"
        )
    return f"{text}: it may run out of memory" if share > _DOUBTFUL else ""
