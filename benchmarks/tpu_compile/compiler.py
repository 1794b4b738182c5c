"""Compiles one recipe for TPU slices, without a TPU, and writes the compiler's figures.

    LIBTPU_INIT_ARGS="FLAGS" python -m benchmarks.tpu_compile.compiler CHIPS SLICES FIGURES.json < RECIPE.json

Each recipe needs a process of its own, because libtpu reads its flags once.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.tpu_compile.arithmetic import operations
from benchmarks.tpu_compile.collectives import bytes_between_slices, received_bytes
from benchmarks.tpu_compile.program import Program
from benchmarks.tpu_compile.replay import Replay
from benchmarks.tpu_compile.report import Figures
from maxtext_driver.configuration import maxtext_arguments, slice_settings, tflops_per_chip
from maxtext_driver.recipe import Recipe


def compile_recipe(recipe: Recipe, chips: int, slices: int) -> Figures:
    """Compile the training step with MaxText's own ahead-of-time program, for slices of `chips` each.

    Raises the compiler's errors.
    """
    from maxtext.trainers.pre_train import train_compile

    figures: list[Figures] = []
    original = train_compile.jit_and_compile

    def measured(*arguments: Any, **options: Any) -> Any:
        start = time.monotonic()
        compiled = original(*arguments, **options)
        values = (*arguments, *options.values())
        (config,) = (value for value in values if hasattr(value, "per_device_batch_size"))
        figures.append(figures_of(compiled, config, chips, slices, time.monotonic() - start))
        return compiled

    patched: Any = train_compile
    patched.jit_and_compile = measured
    arguments = maxtext_arguments(
        recipe,
        **slice_settings(chips, slices=slices),
        base_output_directory="unused",
        run_name="compile",
        # The cache would grow with every compilation, and nothing reads it.
        jax_cache_dir="",
    )
    train_compile.main(arguments)
    return figures[0]


def figures_of(compiled: Any, config: Any, chips_of_slice: int, slices: int, seconds: float) -> Figures:
    """The figures of a compiled step: memory as the compiler reports it, traffic from the program's text."""
    chips = chips_of_slice * slices
    memory, program = compiled.memory_analysis(), Program(compiled.as_text())
    return Figures(
        hbm=memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.generated_code_size_in_bytes,
        host=memory.host_argument_size_in_bytes
        + memory.host_output_size_in_bytes
        - memory.host_alias_size_in_bytes
        + memory.host_temp_size_in_bytes,
        tokens=config.global_batch_size_to_train_on * config.max_target_length // chips,
        received=received_bytes(program, chips),
        from_slices=bytes_between_slices(program, slices),
        operations=operations(program),
        maxtext_operations=tflops_per_chip(config) * 1e12,
        estimate=Replay(program, chips).seconds(),
        compile_seconds=round(seconds, 1),
    )


if __name__ == "__main__":
    tree = json.load(sys.stdin)
    recipe = Recipe.model_validate(tree)
    chips, slices, file = sys.argv[1:]
    Path(file).write_text(json.dumps(asdict(compile_recipe(recipe, int(chips), int(slices)))))
