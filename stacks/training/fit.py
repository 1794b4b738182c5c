"""Whether a recipe's training step fits into a GPU's memory, from figures that `make gpu-fit` computes."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from cloud.machines import Accelerator
from workloads.finetune.settings.recipe import FIT, OWN_FIT, Recipe

# Shares of the memory above which a run is doubtful or hopeless. The figures leave out the CUDA context, the
# kernels' own buffers and memory that the allocator cannot reuse.
_DOUBTFUL: Final = 0.9
_HOPELESS: Final = 1.0
_PROGRAM: Final = (".venv-training/bin/python", "-m", "benchmarks.training.own_fit")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A recipe on the GPUs of a node.

    Args:
        recipe: The recipe with the values of the stack.
        name: Its name or path, as a user gives it.
        values: Values that replace those of the recipe.
        gpu: Model of the GPUs.
        gpus: GPUs over which a sharded model is divided.
    """

    recipe: Recipe
    name: str
    values: Mapping[str, str]
    gpu: Accelerator
    gpus: int

    @property
    def command(self) -> list[str]:
        """The command that computes the memory of a step, for the project's folder.

        Empty if it is known, or if no command can tell it.
        """
        if self.recipe.liger or any(_points(self.recipe, self.gpu, self.gpus)):
            return []
        sets = [f"--set={key}={value}" for key, value in self.values.items()]
        memory = [f"--memory-gb={self.gpu.memory_gb}"] if self.recipe.open else []
        return [*_PROGRAM, f"--recipe={self.name}", *sets, f"--processes={self.gpus}", *memory]

    def check(self) -> None:
        """Checks that a step can fit.

        Raises:
            ValueError: If a training step needs more memory than a GPU has.
        """
        self._doubt()

    def warn(self) -> None:
        """Warns about a recipe with which a run may run out of memory."""
        if doubt := self._doubt():
            pulumi.log.warn(doubt)

    def _doubt(self) -> str:
        """A warning if the recipe may not fit into the memory of these GPUs or more. Empty if it fits."""
        points = [*_points(self.recipe, self.gpu, self.gpus)]
        if self.recipe.liger:
            return (
                f"it is not known whether {self.name} fits into the memory of each {self.gpu.name}: with "
                "liger's kernels a step takes another amount, which only a GPU can tell"
            )
        if not points:
            return (
                f"it is not known whether {self.name} fits into the memory of each {self.gpu.name}; after "
                f"`make setup` this command computes it in minutes: {shlex.join(self.command)}"
            )
        nearest_point = max(points, key=lambda point: point["processes"])
        needed_gb = sum(nearest_point["bytes"].values()) / 1e9
        share = needed_gb / self.gpu.memory_gb
        text = (
            f"{self.name} takes {needed_gb:.1f} GB of the {self.gpu.memory_gb} GB of each {self.gpu.name} "
            f"({share:.0%}; computed, not measured)"
        )
        if share > _HOPELESS:
            raise ValueError(
                f"{text}; take another recipe, or lower batch_size or max_length in a copy of this one"
            )
        return f"{text}: it may run out of memory" if share > _DOUBTFUL else ""


def _points(recipe: Recipe, gpu: Accelerator, gpus: int) -> Iterator[dict[str, Any]]:
    """The figures of a recipe. More processes never need more memory per GPU than fewer."""
    for path in (FIT, OWN_FIT):
        figures = json.loads(path.read_text()) if path.exists() else {}
        for figure in figures.values():
            if figure["digest"] != recipe.fit_digest(gpu.memory_gb):
                continue
            for point in figure["points"]:
                if point["processes"] <= gpus and point["max_length"] == recipe.training.max_length:
                    yield point
