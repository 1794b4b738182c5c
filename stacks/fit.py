"""What a recipe's training step takes of a GPU's memory: computed by `make gpu-fit`, not measured."""

import json
from dataclasses import dataclass
from typing import Final

from cloud.machines import Accelerator
from workloads.finetune.recipe import FIT, load_recipe

# Shares of the memory from which on a run is doubtful, and hopeless: the CUDA context, the kernels' own
# buffers and what the allocator cannot use again are not in the figures.
DOUBTFUL: Final = 0.9
_HOPELESS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A recipe on GPUs of a kind.

    Args:
        needed_gb: GB of each GPU's memory, at the step's highest point.
    """

    recipe: str
    gpu: Accelerator
    needed_gb: float

    @property
    def share(self) -> float:
        """Of the GPU's memory."""
        return self.needed_gb / self.gpu.memory_gb

    def __str__(self) -> str:
        return (
            f"{self.recipe} takes {self.needed_gb:.1f} GB of the {self.gpu.memory_gb} GB of each "
            f"{self.gpu.name} ({self.share:.0%}; computed, not measured)"
        )

    def require(self) -> None:
        """Raises ValueError when a step takes more than there is."""
        if self.share > _HOPELESS:
            raise ValueError(
                f"{self}; take another recipe, or lower batch_size or max_length in a copy of this one"
            )


def fit_of(name: str, gpu: Accelerator, gpus: int) -> Fit | None:
    """The fit of a recipe on so many GPUs or more; None where nothing was computed for what it says today."""
    recipe = load_recipe(name)
    figures = json.loads(FIT.read_text()).get(name, {})
    if figures.get("digest") != recipe.digest:
        return None
    # More processes take no more than fewer; the recipe's own length is the first that was computed.
    points = [
        point
        for point in figures["points"]
        if point["processes"] <= gpus and point["max_length"] == recipe.training.max_length
    ]
    nearest = max(points, key=lambda point: point["processes"], default=None)
    return nearest and Fit(recipe=name, gpu=gpu, needed_gb=sum(nearest["bytes"].values()) / 1e9)
