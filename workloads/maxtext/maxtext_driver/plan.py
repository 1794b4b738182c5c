"""What a recipe trains on a slice, told before any worker is asked for."""

import re
from dataclasses import dataclass

from maxtext.utils.maxtext_utils import calculate_tflops_training_per_device

from maxtext_driver.configuration import check_configuration
from maxtext_driver.errors import InputError
from maxtext_driver.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run in figures; without chips those of one process on CPU. TFLOP are the model's own, per step."""

    chips: int | None
    steps: int
    sequences: int
    sequence_length: int
    tflops_per_chip: float

    def lines(self, recipe: Recipe) -> list[str]:
        """For people."""
        settings = recipe.maxtext
        place = f"{self.chips} chips" if self.chips else "one process on CPU"
        flags = " ".join(recipe.libtpu_flags) or "none"
        return [
            f"model   {settings['model_name']}, data {settings.get('dataset_type', 'synthetic')}",
            f"batch   {self.sequences} sequences of {self.sequence_length} tokens on {place}",
            f"steps   {self.steps}, {self.sequences * self.sequence_length:,} tokens and "
            f"{self.tflops_per_chip:,.1f} TFLOP per chip each",
            f"libtpu  {flags}",
        ]


def make_plan(recipe: Recipe, topology: str | None) -> Plan:
    """Read the recipe as MaxText will on that slice; raises InputError for what it does not take."""
    chips = chips_of(topology) if topology else None
    config = check_configuration(recipe, chips)
    return Plan(
        chips=chips,
        steps=config.steps,
        sequences=config.global_batch_size_to_train_on,
        sequence_length=config.max_target_length,
        tflops_per_chip=calculate_tflops_training_per_device(config)[0],
    )


def chips_of(topology: str) -> int:
    """16 for 4x4; raises InputError for anything else than two numbers."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", topology)
    if not match:
        raise InputError(f"--topology must be two numbers of chips like 4x4, not {topology!r}")
    return int(match.group(1)) * int(match.group(2))
