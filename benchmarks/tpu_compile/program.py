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
    """The program has something that cannot be counted."""


@dataclass(frozen=True)
class Array:
    """The type of the elements, and the lengths."""

    kind: str
    lengths: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes. Raises UnreadableProgram for an unknown type."""
        plain = re.fullmatch(r"[fsu](8|16|32|64)", self.kind)
        if not plain and self.kind not in _BITS:
            raise UnreadableProgram(f"an array of unknown type {self.kind}")
        return (int(plain.group(1)) if plain else _BITS[self.kind]) // 8 * prod(self.lengths)


@dataclass(frozen=True)
class Instruction:
    """A line `%name = shape opcode(operands), attributes`; `rest` is what follows the opening bracket."""

    name: str
    shape: str
    opcode: str
    rest: str

    def arrays(self) -> list[Array]:
        """The arrays of its shape, in order."""
        found = _ARRAY.findall(re.sub(r"\{[^{}]*\}", "", self.shape))
        return [
            Array(kind, tuple(map(int, lengths.split(","))) if lengths else ()) for kind, lengths in found
        ]

    def operands(self) -> list[str]:
        """The names of the operands, in order."""
        return re.findall(r"%([\w.\-]+)", self.rest.split(")")[0])

    def attribute(self, name: str) -> str:
        """The name of the computation that an attribute refers to, or nothing."""
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.rest)
        return found.group(1) if found else ""

    def constant(self) -> int | None:
        """The number that a constant is."""
        return int(self.rest.split(")")[0]) if self.opcode == "constant" else None

    def called(self) -> Iterator[str]:
        """The computations that it calls, but for those of a loop."""
        for one, several in _CALLED.findall(self.rest):
            yield from [one] if one else re.findall(r"%([\w.\-]+)", several)


Computation = dict[str, Instruction]


class Program:
    """The computations of a text by name, each with its instructions as they are scheduled."""

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
        """The instructions of the program, or of a computation and all it calls: where, which, how often."""
        name = name or self.entry
        for each in self.computations[name].values():
            yield name, each, times
            if each.opcode == "while":
                yield from self.runs(each.attribute("body"), times * self.rounds(name, each))
            elif not each.opcode.endswith(("-done", "-update")):
                for called in each.called():
                    yield from self.runs(called, times)

    def rounds(self, inside: str, loop: Instruction) -> int:
        """How often a loop of computation `inside` runs: from a constant up to another in constant steps.

        Raises UnreadableProgram for any other loop.
        """
        condition = self.computations[loop.attribute("condition")]
        compare = next((each for each in condition.values() if each.opcode == "compare"), None)
        counter, limit = (condition[each] for each in compare.operands()) if compare else (loop, loop)
        place, last = re.search(r"index=(\d+)", counter.rest), limit.constant()
        if not (compare and "direction=LT" in compare.rest and place and last is not None):
            raise UnreadableProgram(f"the condition of loop {loop.name} is not counter < constant")
        around, index = self.computations[inside], int(place.group(1))
        first = _origin(around, around[loop.operands()[0]].operands()[index])
        if (start := first.constant()) is None:
            raise UnreadableProgram(f"the counter of loop {loop.name} starts at {first.opcode}, no constant")
        # Loops of collective matrix products do two of their rounds at a time.
        body = self.computations[loop.attribute("body")]
        step, grown = 0, _origin(body, list(body.values())[-1].operands()[index])
        while grown.opcode == "add":
            parts = [_origin(body, operand) for operand in grown.operands()]
            step += sum(part.constant() or 0 for part in parts)
            grown = next(part for part in parts if part.constant() is None)
        if step < 1:
            raise UnreadableProgram(f"the counter of loop {loop.name} does not grow by a constant")
        return -((start - last) // step)


def _origin(computation: Computation, name: str) -> Instruction:
    """What a value is a copy of."""
    place = computation[name]
    while place.opcode in ("copy", "bitcast") or (place.opcode == "fusion" and len(place.operands()) == 1):
        place = computation[place.operands()[0]]
    return place
