"""Counts the bytes that a compiled program sends between chips, from its HLO text.

The count is of the bytes that one of n chips receives over its links in one run of the program, with the ring
algorithm: (n-1)/n of the result of an all-gather, (n-1)/n of the operand of a reduce-scatter or all-to-all,
twice that of an all-reduce, and the whole operand of a collective-permute. What is in a loop counts once per
iteration; the number of iterations is read from the loop's condition.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "f16": 2, "bf16": 2, "s16": 2, "u16": 2}
_BYTES |= {"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
_BYTES |= {"f8e4m3fn": 1, "f8e5m2": 1, "s4": 1, "u4": 1}

_SHAPE = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|branch_computations|called_computations)=(?:%([\w.\-]+)|\{([^{}]*)\})"
)
# In the order of the report.
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")


class UnreadableProgram(Exception):
    """The program has something that cannot be counted."""


@dataclass(frozen=True)
class Instruction:
    """A line `%name = shape opcode(operands), attributes`; `rest` is what follows the opening bracket."""

    name: str
    shape: str
    opcode: str
    rest: str

    def operands(self) -> list[str]:
        """The names of the operands, in order."""
        return re.findall(r"%([\w.\-]+)", self.rest.split(")")[0])

    def attribute(self, name: str) -> str | None:
        """The name of the computation that an attribute refers to."""
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.rest)
        return found.group(1) if found else None


@dataclass
class Program:
    """The computations by name, and the name of the entry."""

    computations: dict[str, dict[str, Instruction]] = field(default_factory=dict)
    entry: str = ""


def received_bytes(text: str, chips: int) -> dict[str, int]:
    """The bytes that one chip receives in one run, by kind of collective.

    Raises UnreadableProgram for a loop whose number of rounds cannot be read, and an unknown type.
    """
    program = _parse(text)
    total: Counter[str] = Counter()
    for kind, size, rounds in _walk(program, program.entry, 1, chips):
        total[kind] += size * rounds
    return {kind: total[kind] for kind in KINDS if total[kind]}


def _parse(text: str) -> Program:
    program = Program()
    current: dict[str, Instruction] | None = None
    for line in text.splitlines():
        # Metadata of a kernel may have lines without indentation, so only the bracket ends a computation.
        if line == "}" or line.startswith("}, execution_thread="):
            current = None
        elif current is None and (match := _COMPUTATION.match(line)):
            current = program.computations.setdefault(match.group(1), {})
            if line.startswith("ENTRY"):
                program.entry = match.group(1)
        elif current is not None and (match := _INSTRUCTION.match(line)):
            current[match.group(1)] = Instruction(*match.groups())
    if not program.entry:
        raise UnreadableProgram("the text has no ENTRY computation")
    return program


def _walk(program: Program, name: str, rounds: int, chips: int) -> Iterator[tuple[str, int, int]]:
    """Kind, bytes and number of runs of every collective in a computation and those that it calls."""
    for instruction in program.computations[name].values():
        opcode = instruction.opcode.removesuffix("-start")
        if opcode in KINDS:
            # XLA:TPU writes a reduce-scatter as a fusion of an all-reduce with a slice.
            kind = "reduce-scatter" if name.startswith("all-reduce-scatter") else opcode
            yield kind, _received(kind, opcode, instruction, chips), rounds
        elif opcode == "while":
            body = instruction.attribute("body") or ""
            yield from _walk(program, body, rounds * _rounds(program, name, instruction), chips)
        elif not opcode.endswith(("-done", "-update")):
            for one, several in _CALLED.findall(instruction.rest):
                for called in [one] if one else re.findall(r"%([\w.\-]+)", several):
                    yield from _walk(program, called, rounds, chips)


def _received(kind: str, opcode: str, instruction: Instruction, chips: int) -> int:
    size = sum(_sizes(instruction))
    group = _group_size(instruction.rest, chips)
    if kind == "collective-permute":
        return size
    if opcode == "reduce-scatter":
        size *= group  # the shape is that of one chip's part
    return size * (group - 1) // group * (2 if kind == "all-reduce" else 1)


def _sizes(instruction: Instruction) -> list[int]:
    """The bytes of each result. A started collective's shape lists its operands before its results."""
    arrays = _SHAPE.findall(re.sub(r"\{[^{}]*\}", "", instruction.shape))
    if instruction.opcode in ("all-gather-start", "collective-permute-start"):
        arrays = [array for array in arrays if array != ("u32", "")]  # semaphores
        arrays = arrays[len(arrays) // 2 :]
    return [
        _bytes(kind) * prod(int(length) for length in lengths.split(",") if length)
        for kind, lengths in arrays
    ]


def _bytes(kind: str) -> int:
    if kind not in _BYTES:
        raise UnreadableProgram(f"a collective of unknown type {kind}")
    return _BYTES[kind]


def _rounds(program: Program, name: str, loop: Instruction) -> int:
    """The number of iterations: XLA's loops count by ones up to a constant in their condition."""
    condition = program.computations[loop.attribute("condition") or ""]
    compare = next((each for each in condition.values() if each.opcode == "compare"), None)
    if compare is None or "direction=LT" not in compare.rest:
        raise UnreadableProgram(f"the condition of loop {loop.name} is not counter < constant")
    counter, limit = (condition[operand] for operand in compare.operands())
    index = re.search(r"index=(\d+)", counter.rest)
    if limit.opcode != "constant" or counter.opcode != "get-tuple-element" or not index:
        raise UnreadableProgram(f"the condition of loop {loop.name} is not counter < constant")
    start = _constant(program.computations[name], loop.operands()[0], int(index.group(1)))
    return int(limit.rest.split(")")[0]) - start


def _constant(computation: dict[str, Instruction], tuple_name: str, index: int) -> int:
    """The constant at an index of a tuple, looked up through copies."""
    place = computation[computation[tuple_name].operands()[index]]
    while place.opcode in ("copy", "bitcast") or (place.opcode == "fusion" and len(place.operands()) == 1):
        place = computation[place.operands()[0]]
    if place.opcode != "constant":
        raise UnreadableProgram(
            f"the counter of loop {tuple_name} starts at {place.opcode}, not at a constant"
        )
    return int(place.rest.split(")")[0])


def _group_size(rest: str, chips: int) -> int:
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
        return listed.group(1).count(",") + 1
    if counted := re.search(r"replica_groups=\[(\d+),(\d+)\]", rest):
        return int(counted.group(2))
    return chips
