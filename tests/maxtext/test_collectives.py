"""Counts the bytes between chips of small programs in HLO text."""

import pytest

from benchmarks.tpu_compile.collectives import bytes_between_slices, received_bytes
from benchmarks.tpu_compile.program import Program, UnreadableProgram

CHIPS = 16
KIB = 1024


def program(*instructions: str, more: str = "") -> str:
    """A program with these instructions in its entry, and `more` before the entry."""
    return "\n".join(
        ["HloModule step", "", *more.splitlines(), "", "ENTRY %main (p: bf16[512]) -> bf16[512] {"]
        + [f"  {line}" for line in instructions]
        + ["}", ""]
    )


def test_of_a_gathered_result_all_but_the_chip_s_own_part_is_received() -> None:
    text = program("%g = bf16[512]{0} all-gather(%p), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}")
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * 3 // 4}


def test_groups_may_be_written_as_counts() -> None:
    text = program("%g = bf16[512]{0} all-gather(%p), replica_groups=[2,8]<=[16], dimensions={0}")
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * 7 // 8}


@pytest.mark.parametrize(("axes", "chips"), [("{'fsdp'}", 4), ("{'tensor'}", 2), ("{'fsdp','tensor'}", 8)])
def test_groups_may_be_written_as_axes_of_a_mesh(axes: str, chips: int) -> None:
    groups = f"mesh['data'=2,'fsdp'=4,'tensor'=2] {axes}"
    text = program(f"%g = bf16[512]{{0}} all-gather(%p), replica_groups={groups}, dimensions={{0}}")
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * (chips - 1) // chips}


@pytest.mark.parametrize("groups", ["mesh['a'=16] {'a':(1)4}", "mesh['a'=16] {'b'}", "something"])
def test_groups_of_another_form_are_not_guessed_at(groups: str) -> None:
    text = program(f"%g = bf16[512]{{0}} all-gather(%p), replica_groups={groups}, dimensions={{0}}")
    with pytest.raises(UnreadableProgram, match="groups of an unknown form"):
        received_bytes(Program(text), CHIPS)


def test_a_sum_for_all_costs_twice_a_sum_that_is_scattered() -> None:
    text = program(
        "%a = bf16[512]{0} all-reduce(%p), replica_groups=[1,16]<=[16], to_apply=%add",
        "%s = bf16[32]{0} reduce-scatter(%p), replica_groups=[1,16]<=[16], to_apply=%add",
        more="%add (x: bf16[], y: bf16[]) -> bf16[] {\n  ROOT %r = bf16[] add(%x, %y)\n}",
    )
    part = KIB * 15 // 16
    assert received_bytes(Program(text), CHIPS) == {"all-reduce": 2 * part, "reduce-scatter": part}


def test_a_sum_that_is_scattered_may_be_a_fusion_of_a_sum_for_all() -> None:
    scatter = (
        "%all-reduce-scatter.1 (x: bf16[512]) -> bf16[32] {\n"
        "  %a = bf16[512]{0} all-reduce(%x), replica_groups=[1,16]<=[16]\n"
        "  ROOT %d = bf16[32]{0} dynamic-slice(%a, %i)\n}"
    )
    text = program("%f = bf16[32]{0} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.1", more=scatter)
    assert received_bytes(Program(text), CHIPS) == {"reduce-scatter": KIB * 15 // 16}


def test_a_started_collective_counts_once_and_its_semaphores_do_not() -> None:
    text = program(
        "%p1 = (bf16[512]{0:T(8,128)(2,1)}, bf16[512]{0}, u32[]{:S(2)}, u32[]{:S(2)}) "
        "collective-permute-start(%p), source_target_pairs={{0,1},{1,0}}",
        "%p2 = bf16[512]{0} collective-permute-done(%p1)",
        "%g1 = (bf16[32]{0}, bf16[512]{0}) all-gather-start(%p), replica_groups=[1,16]<=[16]",
        "%g2 = bf16[512]{0} all-gather-done(%g1)",
    )
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * 15 // 16, "collective-permute": KIB}


def parsed(*instructions: str, more: str = "") -> Program:
    return Program(program(*instructions, more=more))


def received(handler: str, kind: str) -> str:
    """What a chip receives from its host, as libtpu 0.0.52 writes it."""
    attributes = f'_xla_host_transfer_handler_name="{handler}",_xla_megascale_transfer_type="{kind}"'
    return (
        "%r = (bf16[4,128]{1,0:T(4,128)(2,1)}, u32[]{:S(2)}, token[]) recv(%after-all), channel_id=2, "
        f"is_host_transfer=true, frontend_attributes={{{attributes}}}"
    )


@pytest.mark.parametrize(("slices", "size"), [(2, KIB), (4, KIB * 3 // 2)])
def test_a_sum_over_slices_comes_over_the_data_centre_s_network(slices: int, size: int) -> None:
    program = parsed(
        received("xla_megascale_runtime", "ALL_REDUCE"),
        "%d = (bf16[4,128]{1,0:T(4,128)(2,1)}, token[]) recv-done(%r), channel_id=2",
    )
    assert bytes_between_slices(program, slices) == size
    assert received_bytes(program, CHIPS) == {}


def test_what_a_chip_has_from_its_own_host_comes_from_no_slice() -> None:
    assert bytes_between_slices(parsed(received("another", "ALL_REDUCE")), 2) == 0


def test_what_is_no_sum_over_slices_is_not_guessed_at() -> None:
    with pytest.raises(UnreadableProgram, match="r is no sum over slices"):
        bytes_between_slices(parsed(received("xla_megascale_runtime", "ALL_GATHER")), 2)


LOOP = (
    "%body (t: (s32[], bf16[512])) -> (s32[], bf16[512]) {{\n"
    "  %now = s32[] get-tuple-element(%t), index=0\n"
    "  %more = s32[] constant({step})\n"
    "  %next = s32[] add(%now, %more)\n"
    "  %g = bf16[512]{{0}} all-gather(%x), replica_groups=[1,16]<=[16]\n"
    "  ROOT %r = (s32[], bf16[512]) tuple(%next, %g)\n}}\n"
    "%condition (t: (s32[], bf16[512])) -> pred[] {{\n"
    "  %limit = s32[]{{:T(128)}} constant(32)\n"
    "  %counter = s32[]{{:T(128)}} get-tuple-element(%t), index=0\n"
    "  ROOT %c = pred[] compare(%counter, %limit), direction={direction}\n}}"
)
WHILE = "%w = (s32[], bf16[512]) while(%t), condition=%condition, body=%body"


def test_what_lies_in_a_loop_counts_for_every_round_from_the_first_value_on() -> None:
    more = LOOP.format(direction="LT", step=1)
    for first in (0, 1):
        text = program(
            f"%zero = s32[] constant({first})",
            "%copy = s32[] copy(%zero)",
            "%t = (s32[], bf16[512]) tuple(%copy, %p)",
            WHILE,
            more=more,
        )
        assert received_bytes(Program(text), CHIPS) == {"all-gather": (32 - first) * KIB * 15 // 16}


@pytest.mark.parametrize(("step", "rounds"), [(2, 16), (3, 11)])
def test_a_loop_of_collective_matrix_products_counts_its_rounds_and_not_its_steps(
    step: int, rounds: int
) -> None:
    text = program(
        "%zero = s32[] constant(0)",
        "%t = (s32[], bf16[512]) tuple(%zero, %p)",
        WHILE,
        more=LOOP.format(direction="LT", step=step),
    )
    assert received_bytes(Program(text), CHIPS) == {"all-gather": rounds * KIB * 15 // 16}


def test_a_loop_that_stands_still_is_not_guessed_at() -> None:
    zero, tuple_ = "%zero = s32[] constant(0)", "%t = (s32[], bf16[512]) tuple(%zero, %p)"
    with pytest.raises(UnreadableProgram, match="does not grow by a constant"):
        received_bytes(parsed(zero, tuple_, WHILE, more=LOOP.format(direction="LT", step=0)), CHIPS)


def test_a_loop_whose_rounds_cannot_be_read_is_not_guessed_at() -> None:
    tuple_ = "%t = (s32[], bf16[512]) tuple(%p, %p)"
    parameter = "%p = s32[] parameter(0)"
    with pytest.raises(UnreadableProgram, match="counter < constant"):
        received_bytes(parsed(parameter, tuple_, WHILE, more=LOOP.format(direction="NE", step=1)), CHIPS)
    with pytest.raises(UnreadableProgram, match="starts at parameter"):
        received_bytes(parsed(parameter, tuple_, WHILE, more=LOOP.format(direction="LT", step=1)), CHIPS)


def test_a_kernel_s_metadata_over_several_lines_does_not_end_a_computation() -> None:
    text = program(
        '%k = bf16[512]{0} custom-call(%p), backend_config={"x":{\n"block": 512\n}}, metadata={}',
        "%g = bf16[512]{0} all-gather(%k), replica_groups=[1,16]<=[16]",
    )
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * 15 // 16}


def test_a_computation_of_another_core_ends_with_the_name_of_its_thread() -> None:
    more = (
        "%one (x: bf16[512]) -> bf16[512] {\n"
        "  ROOT %r = bf16[512]{0} copy(%x)\n"
        '}, execution_thread="sparsecore"\n'
        "%two (x: bf16[512]) -> bf16[512] {\n"
        "  %g = bf16[512]{0} all-gather(%x), replica_groups=[1,16]<=[16]\n}"
    )
    text = program("%c = bf16[512]{0} call(%p), to_apply=%two", more=more)
    assert received_bytes(Program(text), CHIPS) == {"all-gather": KIB * 15 // 16}
