"""The figures of a run on a slice, computed before any worker is requested."""

from dataclasses import dataclass

from maxtext_driver.configuration import check_configuration, tflops_per_chip
from maxtext_driver.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run in figures; without chips those of one process on CPU. TFLOP are per chip and step."""

    chips: int | None
    steps: int
    sequences: int
    sequence_length: int
    tflops: float

    def lines(self, recipe: Recipe) -> list[str]:
        """For people."""
        settings = recipe.maxtext
        place = f"{self.chips} chips" if self.chips else "one process on CPU"
        return [
            f"model   {settings['model_name']}, data {settings.get('dataset_type', 'synthetic')}",
            f"batch   {self.sequences} sequences of {self.sequence_length} tokens on {place}",
            f"steps   {self.steps}, each of {self.sequences * self.sequence_length:,} tokens and "
            f"{self.tflops:,.1f} TFLOP per chip",
            f"libtpu  {' '.join(recipe.libtpu_flags) or 'no flags'}",
        ]


def print_plan(recipe: Recipe, chips: int | None) -> None:
    """Print the plan of a run; raises InputError when MaxText rejects a setting."""
    for line in make_plan(recipe, chips).lines(recipe):
        print(line, flush=True)


def make_plan(recipe: Recipe, chips: int | None) -> Plan:
    """Compute the plan from MaxText's configuration for `chips`.

    Raises InputError when MaxText rejects it.
    """
    config = check_configuration(recipe, chips)
    return Plan(
        chips=chips,
        steps=config.steps,
        sequences=config.global_batch_size_to_train_on,
        sequence_length=config.max_target_length,
        tflops=tflops_per_chip(config),
    )
