"""The figures of a run on TPU slices, computed before any worker is requested."""

from maxtext_driver.configuration import check_configuration, tflops_per_chip
from maxtext_driver.recipe import Recipe


def print_plan(recipe: Recipe, chips: int | None, accelerator: str, slices: int = 1) -> None:
    """Print the plan of a run on slices of `chips` each, or in one process on CPU.

    Raises InputError when MaxText rejects a setting.
    """
    config = check_configuration(recipe, chips, accelerator, slices)
    settings, sequences = recipe.maxtext, config.global_batch_size_to_train_on
    steps = f"{config.steps}" if "steps" in settings else f"of {recipe.epochs} rounds of the rows"
    place = f"{chips} chips" if chips else "one process on CPU"
    if slices > 1:
        place = f"{slices} slices of {place}"
    for line in (
        f"model   {settings['model_name']}, data {settings.get('dataset_type', 'synthetic')}",
        f"batch   {sequences} sequences of {config.max_target_length} tokens on {place}",
        f"steps   {steps}, each of {sequences * config.max_target_length:,} tokens and "
        f"{tflops_per_chip(config):,.1f} TFLOP per chip",
        f"libtpu  {' '.join(recipe.libtpu_flags) or 'no flags'}",
    ):
        print(line, flush=True)
