"""Counts the bytes that a compiled program sends between chips, from its HLO text.

It counts the bytes that one of n chips receives over its links in one run of the program, with the ring
algorithm. An instruction in a loop counts once per iteration.

- all-gather: (n-1)/n of the result
- reduce-scatter, all-to-all: (n-1)/n of the operand
- all-reduce: twice as much
- collective-permute: the whole operand

Slices are joined by the data centre's network. What they send is no collective of the program: a chip sends
to its host and receives from it, and libtpu's runtime moves the bytes between the hosts.
"""

import re
from collections import Counter
from math import prod

from benchmarks.tpu_compile.program import Instruction, Program, UnreadableProgram

# In the order of the report.
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")

# The handler of what a chip exchanges with other slices. Exchanges with the host have no such handler.
_BETWEEN_SLICES = "xla_megascale_runtime"
_SUM = '_xla_megascale_transfer_type="ALL_REDUCE"'


def received_bytes(program: Program, chips: int, name: str = "") -> dict[str, int]:
    """The bytes that one chip receives in one run of the program, or of one computation, by kind.

    Raises UnreadableProgram for a loop whose number of rounds cannot be read, an unknown type or group.
    """
    total: Counter[str] = Counter()
    for inside, instruction, times in program.runs(name):
        kind, size = received(inside, instruction, chips)
        total[kind] += size * times
    return {kind: total[kind] for kind in KINDS if total[kind]}


def received(inside: str, instruction: Instruction, chips: int) -> tuple[str, int]:
    """Kind and bytes of an instruction of the computation `inside`, 0 bytes unless it is a collective."""
    opcode = instruction.opcode.removesuffix("-start")
    if opcode not in KINDS:
        return opcode, 0
    size, group = _size(instruction), _group_size(instruction.rest, chips)
    if opcode == "collective-permute":
        return opcode, size
    if opcode == "reduce-scatter":
        size *= group  # the shape is one chip's part

    # XLA:TPU writes a reduce-scatter as a fusion of an all-reduce with a slice.
    kind = "reduce-scatter" if inside.startswith("all-reduce-scatter") else opcode
    rounds = 2 if kind == "all-reduce" else 1
    return kind, size * (group - 1) // group * rounds


def bytes_between_slices(program: Program, slices: int) -> int:
    """The bytes that one chip receives from other slices in one run of the program, with the ring algorithm.

    Raises UnreadableProgram for anything but sums, which are all that slices with a copy of the weights send.
    """
    total = 0
    for _, instruction, times in program.runs():
        if instruction.opcode == "recv" and _BETWEEN_SLICES in instruction.rest:
            if _SUM not in instruction.rest:
                raise UnreadableProgram(f"{instruction.name} is no sum over slices: its bytes are not known")
            total += instruction.arrays()[0].size * times
    return 2 * total * (slices - 1) // slices


def _size(instruction: Instruction) -> int:
    """The bytes of the results. A started collective's shape lists its operands before its results."""
    arrays = instruction.arrays()
    if instruction.opcode in ("all-gather-start", "collective-permute-start"):
        arrays = [array for array in arrays if array.lengths or array.kind != "u32"]  # without semaphores
        arrays = arrays[len(arrays) // 2 :]
    return sum(array.size for array in arrays)


def _group_size(rest: str, chips: int) -> int:
    """The number of chips in a group. Raises UnreadableProgram for an unknown form."""
    written = re.search(
        r"replica_groups=(\{\{([\d,]+)\}|\[(\d+),(\d+)\]|mesh\[(.*?)\] \{(.*?)\}|\{\})?", rest
    )
    if not written or written.group(1) == "{}":
        return chips
    if listed := written.group(2):
        return listed.count(",") + 1
    if written.group(4):
        return int(written.group(4))
    lengths = dict(re.findall(r"'(\w+)'=(\d+)", written.group(5) or ""))
    axes = re.findall(r"'(\w+)'", written.group(6) or "")
    if not axes or not lengths.keys() >= set(axes) or ":" in written.group(6):
        raise UnreadableProgram(f"groups of an unknown form: {rest[written.start() :][:80]}")
    return prod(int(lengths[axis]) for axis in axes)
