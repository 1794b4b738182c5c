"""A compiled program as HLO text: its computations, and how often each of their instructions runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

_BITS = {"pred": 8, "s4": 8, "u4": 8, "bf16": 16, "f8e4m3fn": 8, "f8e5m2": 8}
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_CALLED = re.compile(r"\b(?:calls|to_apply|\w+_computations)=(?:%([\w.\-]+)|\{([^{}]*)\})")


class UnreadableProgram(Exception):
    """A part of the program cannot be counted. The message says which."""


@dataclass(frozen=True)
class Array:
    """An array: the type of its elements, and its lengths."""

    kind: str
    lengths: tuple[int, ...]

    @property
    def size(self) -> int:
        """The size in bytes. Raises UnreadableProgram for an unknown type."""
        plain = re.fullmatch(r"[fsu](8|16|32|64)", self.kind)
        bits = int(plain.group(1)) if plain else _BITS.get(self.kind)
        if bits is None:
            raise UnreadableProgram(f"an array of unknown type {self.kind}")
        return bits // 8 * prod(self.lengths)


@dataclass(frozen=True)
class Instruction:
    """A line `%name = shape opcode(operands), attributes`. `rest` is the text after the opening bracket."""

    name: str
    shape: str
    opcode: str
    rest: str

    def arrays(self) -> list[Array]:
        """The arrays of its shape, in order."""
        shape = re.sub(r"\{[^{}]*\}", "", self.shape)
        return [
            Array(kind, tuple(map(int, filter(None, lengths.split(",")))))
            for kind, lengths in _ARRAY.findall(shape)
        ]

    def operands(self) -> list[str]:
        """The names of the operands, in order."""
        return re.findall(r"%([\w.\-]+)", self.rest.split(")")[0])

    def attribute(self, name: str) -> str:
        """The name of the computation that an attribute refers to, or an empty text."""
        match = re.search(rf"\b{name}=%?([\w.\-]+)", self.rest)
        return match.group(1) if match else ""

    def constant(self) -> int | None:
        """The number of a constant, None for any other instruction."""
        return int(self.rest.split(")")[0]) if self.opcode == "constant" else None

    def called(self) -> Iterator[str]:
        """The computations that the instruction calls, without those of a loop."""
        for one, several in _CALLED.findall(self.rest):
            yield from [one] if one else re.findall(r"%([\w.\-]+)", several)


Computation = dict[str, Instruction]


class Program:
    """The computations of a text by name, each with its instructions in the order of their schedule."""

    def __init__(self, text: str):
        """Raises UnreadableProgram when the text has no entry."""
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        current: Computation | None = None
        for line in text.splitlines():
            # Metadata of a kernel may have lines without indentation, so only the bracket ends a computation.
            if line == "}" or line.startswith("}, execution_thread="):
                current = None
            elif current is None and (match := _COMPUTATION.match(line)):
                current = self.computations.setdefault(match.group(1), {})
                self.entry = match.group(1) if line.startswith("ENTRY") else self.entry
            elif current is not None and (match := _INSTRUCTION.match(line)):
                current[match.group(1)] = Instruction(*match.groups())
        if not self.entry:
            raise UnreadableProgram("the text has no ENTRY computation")

    def runs(self, name: str = "", times: int = 1) -> Iterator[tuple[str, Instruction, int]]:
        """The instructions of the program, or of one computation, and of all computations that it calls.

        Yields the computation's name, the instruction, and how often it runs.
        """
        name = name or self.entry
        for instruction in self.computations[name].values():
            yield name, instruction, times
            if instruction.opcode == "while":
                rounds = self.rounds(name, instruction)
                yield from self.runs(instruction.attribute("body"), times * rounds)
            elif not instruction.opcode.endswith(("-done", "-update")):
                for called in instruction.called():
                    yield from self.runs(called, times)

    def rounds(self, inside: str, loop: Instruction) -> int:
        """How often a loop of computation `inside` runs. It counts from a constant to another in equal steps.

        Raises UnreadableProgram for any other loop.
        """
        condition = self.computations[loop.attribute("condition")]
        index, last = _counter_and_limit(condition)
        if index is None or last is None:
            raise UnreadableProgram(f"the condition of loop {loop.name} is not counter < constant")
        around = self.computations[inside]
        first = _origin(around, around[loop.operands()[0]].operands()[index])
        if (start := first.constant()) is None:
            raise UnreadableProgram(f"the counter of loop {loop.name} starts at {first.opcode}, no constant")
        # Loops of collective matrix products do two rounds at a time.
        body = self.computations[loop.attribute("body")]
        step, counter = 0, _origin(body, list(body.values())[-1].operands()[index])
        while counter.opcode == "add":
            parts = [_origin(body, operand) for operand in counter.operands()]
            step += sum(part.constant() or 0 for part in parts)
            counter = next(part for part in parts if part.constant() is None)
        if step < 1:
            raise UnreadableProgram(f"the counter of loop {loop.name} does not grow by a constant")
        # Rounded up.
        return -((start - last) // step)


def _counter_and_limit(condition: Computation) -> tuple[int | None, int | None]:
    """The index of a loop's counter and the number below which it stays, None where it is not so."""
    compare = next((line for line in condition.values() if line.opcode == "compare"), None)
    if compare is None or "direction=LT" not in compare.rest:
        return None, None
    counter, limit = (condition[name] for name in compare.operands())
    index = re.search(r"index=(\d+)", counter.rest)
    return int(index.group(1)) if index else None, limit.constant()


def _origin(computation: Computation, name: str) -> Instruction:
    """The instruction whose value a value is a copy of."""
    origin = computation[name]
    while _is_copy(origin):
        origin = computation[origin.operands()[0]]
    return origin


def _is_copy(instruction: Instruction) -> bool:
    is_fusion_of_one = instruction.opcode == "fusion" and len(instruction.operands()) == 1
    return is_fusion_of_one or instruction.opcode in ("copy", "bitcast")
