"""Whether a recipe's training step fits into a GPU's memory, from figures that `make gpu-fit` computes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.machines import Accelerator
from workloads.finetune.recipe import FIT, OWN_FIT, Recipe

# Shares of the memory above which a run is doubtful or hopeless. The figures leave out the CUDA context, the
# kernels' own buffers and memory that the allocator cannot reuse.
_DOUBTFUL: Final = 0.9
_HOPELESS: Final = 1.0
_PROGRAM: Final = (".venv-training/bin/python", "-m", "benchmarks.training.own_fit")


def command_for(recipe: str, values: Mapping[str, str], gpus: int) -> list[str]:
    """The command that computes the figures of a recipe. It runs in the project's folder.

    Args:
        recipe: Name or path of the recipe.
        values: Values that replace those of the recipe.
    """
    sets = [f"--set={key}={value}" for key, value in values.items()]
    return [*_PROGRAM, f"--recipe={recipe}", *sets, f"--processes={gpus}"]


def is_known(recipe: Recipe, gpus: int) -> bool:
    """Whether there are figures of the recipe on `gpus` GPUs or more."""
    return any(_points(recipe, gpus))


def doubt_of(recipe: Recipe, name: str, gpu: Accelerator, gpus: int, command: str) -> str:
    """A warning if a recipe may not fit into the memory of `gpus` GPUs or more; empty if it fits.

    Args:
        name: Name of the recipe for the text.
        command: Computes the figures of the recipe.

    Raises:
        ValueError: If a training step needs more memory than a GPU has.
    """
    points = [*_points(recipe, gpus)]
    if not points:
        return (
            f"it is not known whether {name} fits into the memory of each {gpu.name}; after `make setup` "
            f"this command computes it in minutes: {command}"
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


def _points(recipe: Recipe, gpus: int) -> Iterator[dict[str, Any]]:
    """The figures of a recipe. More processes never need more memory per GPU than fewer."""
    for path in (FIT, OWN_FIT):
        figures = json.loads(path.read_text()) if path.exists() else {}
        for figure in figures.values():
            if figure["digest"] != recipe.memory_digest:
                continue
            for point in figure["points"]:
                if point["processes"] <= gpus and point["max_length"] == recipe.training.max_length:
                    yield point
