"""Whether a recipe's training step fits into a GPU's memory, from figures that `make gpu-fit` computes."""

import json
from itertools import chain
from typing import Final

from cloud.machines import Accelerator
from workloads.finetune.recipe import FIT, Recipe

# Shares of the memory above which a run is doubtful or hopeless. The figures leave out the CUDA context, the
# kernels' own buffers and memory that the allocator cannot reuse.
_DOUBTFUL: Final = 0.9
_HOPELESS: Final = 1.0


def doubt_of(recipe: Recipe, name: str, gpu: Accelerator, gpus: int) -> str:
    """A warning if a recipe may not fit into the memory of `gpus` GPUs or more; empty if it fits.

    Args:
        name: Name of the recipe for the text.

    Raises:
        ValueError: If a training step needs more memory than a GPU has.
    """
    figures = json.loads(FIT.read_text()).values()
    computed = chain.from_iterable(
        figure["points"] for figure in figures if figure["digest"] == recipe.memory_digest
    )
    # More processes never need more memory per GPU than fewer.
    points = [
        point
        for point in computed
        if point["processes"] <= gpus and point["max_length"] == recipe.training.max_length
    ]
    if not points:
        return (
            f"it is not known whether {name} fits into the memory of each {gpu.name}: add the recipe to "
            "CASES in benchmarks/training/fit.py and run `make gpu-fit`"
        )
    nearest_point = max(points, key=lambda point: point["processes"])
    needed_gb = sum(nearest_point["bytes"].values()) / 1e9
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
