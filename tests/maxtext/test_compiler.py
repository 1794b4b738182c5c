"""The TPU compiler itself, on MaxText's smallest model. It needs no TPU."""

from pathlib import Path

import pytest
from tiny import make_recipe

from benchmarks.tpu_compile.__main__ import CompilerError, compile_in_process
from maxtext_driver.recipe import Recipe, load_recipe

pytestmark = pytest.mark.slow

CHIPS = 16


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """One row per chip, weights sharded over all chips."""
    file = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    return load_recipe(str(make_recipe(file, per_device_batch_size=1, ici_fsdp_parallelism=-1)))


def test_the_compiler_tells_memory_and_traffic_of_a_step_on_a_slice(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    figures = compile_in_process(Recipe(maxtext=recipe.maxtext | {"jax_cache_dir": "~/jax_cache"}), CHIPS)
    # No cache is left behind, which MaxText has there by default.
    assert not list(tmp_path.iterdir())
    assert figures.operations > figures.maxtext_operations > 0
    assert 0 < figures.estimate < 1
    assert figures.tokens == 32
    # A sixteenth of the weights and two moments of 52,000 parameters in fp32, and the memory of a step.
    assert 52_000 * 12 / CHIPS < figures.hbm < 100 * 2**20
    assert figures.host == 0
    # Every chip gathers the weights, in bf16, at least once.
    assert figures.received["all-gather"] > 52_000 * 2 * 15 / CHIPS / 2
    assert figures.from_slices == 0


def test_of_two_slices_each_sums_its_gradients_with_the_other(recipe: Recipe) -> None:
    figures = compile_in_process(recipe, CHIPS, 2)
    assert figures.tokens == 32
    # A sixteenth of the gradients in bf16, which small arrays fill up to the size of a register.
    assert 52_000 * 2 / CHIPS < figures.from_slices < 52_000
    # Weights are gathered inside of a slice.
    assert figures.received["all-gather"] > 52_000 * 2 * 15 / CHIPS / 2


# Flags of Google's published recipe that this version of the compiler rejects for v6e.
CONTINUATION_FUSION = (
    "--xla_tpu_enable_async_collective_fusion=true",
    "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true",
    "--xla_tpu_enable_async_collective_fusion_multiple_steps=true",
    "--xla_tpu_overlap_compute_collective_tc=true",
    "--xla_enable_async_all_gather=true",
)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (CONTINUATION_FUSION, "not supported/recommended on platforms other than TPU v5e"),
        (("--xla_tpu_no_such_flag=true",), "xla_tpu_no_such_flag"),
    ],
)
def test_what_the_compiler_refuses_is_told_in_one_line(
    recipe: Recipe, flags: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(CompilerError) as error:
        compile_in_process(Recipe(maxtext=recipe.maxtext, libtpu_flags=flags), CHIPS)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
