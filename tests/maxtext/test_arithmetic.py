"""Counts the operations of small programs in HLO text, and replays their schedule."""

import pytest
from test_collectives import LOOP, WHILE, program

from benchmarks.tpu_compile.arithmetic import operations
from benchmarks.tpu_compile.program import Program, UnreadableProgram
from benchmarks.tpu_compile.replay import CHIPS, CLOCK, PEAK, Replay

LEFT, RIGHT = "%a = bf16[4,64,8]{2,1,0} parameter(0)", "%b = bf16[8,16]{1,0} parameter(1)"


def test_a_product_counts_two_operations_for_each_pair_of_numbers() -> None:
    product = "%c = bf16[4,64,16]{2,1,0} convolution(%a, %w), window={size=1}, dim_labels=0bf_0io->0bf"
    weights = "%w = bf16[1,8,16]{2,1,0} bitcast(%b)"
    assert operations(Program(program(LEFT, RIGHT, weights, product))) == 2 * 4 * 64 * 16 * 8


def test_a_direction_that_is_all_padding_counts_only_what_it_multiplies() -> None:
    """XLA:TPU writes the eight heads of a product as a window of eight over one padded place."""
    text = program(
        "%a = bf16[4,64,32,1]{2,1,0,3} parameter(0)",
        "%b = bf16[32,8,16,1]{0,2,1,3} parameter(1)",
        "%c = bf16[4,64,8,16]{3,1,2,0} convolution(%a, %b), "
        "window={size=1x8 pad=0_0x7_7 rhs_reversal=0x1}, dim_labels=0bf1_i1o0->0b1f",
    )
    assert operations(Program(text)) == 2 * 4 * 64 * 32 * 8 * 16


def kernel(name: str, results: int = 1) -> str:
    shape = ", ".join(["bf16[2,4,256,128]{3,2,1,0}"] * results)
    return (
        f'%{name}.1 = ({shape}) custom-call(%q), custom_call_target="tpu_custom_call", '
        "operand_layout_constraints={s8[1,8,8]{2,1,0}, bf16[2,4,256,128]{3,2,1,0}}"
    )


ONE_PRODUCT = 2 * 2 * 4 * 256 * 256 * 128 // 2


@pytest.mark.parametrize(
    ("name", "results", "products"),
    [
        ("splash_mha_fwd_residuals", 2, 2),
        ("splash_mha_dq", 1, 3),
        ("splash_mha_dkv", 2, 4),
        ("splash_mha_dkv", 3, 5),
    ],
)
def test_a_kernel_of_attention_counts_the_half_of_each_product_that_is_not_masked(
    name: str, results: int, products: int
) -> None:
    assert operations(Program(program(kernel(name, results)))) == products * ONE_PRODUCT


def test_another_kernel_is_not_guessed_at() -> None:
    with pytest.raises(UnreadableProgram, match="operations are not known"):
        operations(Program(program(kernel("mosaic"))))


def seconds(*instructions: str, more: str = "") -> float:
    return Replay(Program(program(*instructions, more=more)), 16).seconds()


CYCLES = 'backend_config={"window_config":{"estimated_cycles":"1750000"}}'
BUSY = f"%b{{}} = bf16[512]{{{{0}}}} fusion(%p), kind=kLoop, {CYCLES.replace('{', '{{').replace('}', '}}')}"
GATHER = "bf16[1048576]{0}"
GATHER_SECONDS = 2 * 1048576 * 15 / 16 / CHIPS


def test_what_the_core_does_takes_the_compiler_s_cycles_and_attention_half_of_the_matrix_units() -> None:
    assert seconds(BUSY.format(1), BUSY.format(2)) == pytest.approx(2 * 1750000 / CLOCK)
    assert seconds(kernel("splash_mha_fwd", 2)) == pytest.approx(2 * ONE_PRODUCT / (PEAK / 2))


def test_what_the_compiler_has_no_estimate_of_takes_no_time() -> None:
    unknown = BUSY.format(1).replace("1750000", "9223372036854775807")
    assert seconds(unknown) == 0


def test_a_started_collective_runs_beside_the_core_and_another_one_before_it_goes_on() -> None:
    groups = "replica_groups=[1,16]<=[16]"
    waits = f"%g = {GATHER} all-gather(%p), {groups}"
    start = f"%s = ({GATHER}, {GATHER}) all-gather-start(%p), {groups}"
    done = f"%d = {GATHER} all-gather-done(%s)"
    busy = 1750000 / CLOCK
    assert seconds(waits, BUSY.format(1)) == pytest.approx(GATHER_SECONDS + busy)
    assert seconds(start, BUSY.format(1), done) == pytest.approx(max(GATHER_SECONDS, busy))


def test_a_loop_takes_the_time_of_all_its_rounds() -> None:
    more = LOOP.format(direction="LT", step=2)
    one = seconds("%g = bf16[512]{0} all-gather(%p), replica_groups=[1,16]<=[16]")
    all_rounds = seconds(
        "%zero = s32[] constant(0)", "%t = (s32[], bf16[512]) tuple(%zero, %p)", WHILE, more=more
    )
    assert all_rounds == pytest.approx(16 * one)
