"""Estimates the seconds of a compiled step by a replay of its schedule. It measures nothing.

One chip's core, its links to other chips and its link to the host each do one thing at a time. The core's
time is the TPU compiler's own estimate of cycles. There is none for attention, which takes half of the matrix
units, since a head is half as wide as they are. A started transfer runs beside the core until an instruction
waits for it.
"""

import re

from benchmarks.tpu_compile.arithmetic import attention
from benchmarks.tpu_compile.collectives import received, received_bytes
from benchmarks.tpu_compile.program import Instruction, Program

# What a v6e chip does in a second: cycles, operations, bytes from chips and bytes from the host. 16 chips
# have no wraparound, so a corner has two links of 100 GB/s one way.
# https://docs.cloud.google.com/tpu/docs/v6e https://jax-ml.github.io/scaling-book/tpus
CLOCK, PEAK, CHIPS, HOST = 1.75e9, 918e12, 200e9, 32e9
# The compiler writes a larger number when it has no estimate.
_KNOWN = 2**62


class Replay:
    """The times, in seconds, at which the core and the links of a chip are done with their work so far."""

    def __init__(self, program: Program, chips: int):
        self._program, self._chips = program, chips
        self._core = self._links = self._host = 0.0
        self._ends: dict[str, float] = {}

    def seconds(self) -> float:
        """The time of the whole program."""
        self._run(self._program.entry)
        return max(self._core, self._links, self._host)

    def _run(self, name: str) -> None:
        for instruction in self._program.computations[name].values():
            if instruction.opcode == "while":
                self._run_loop(name, instruction)
            elif instruction.opcode == "call":
                self._run(next(instruction.called()))
            elif instruction.opcode.endswith(("-done", "-update")):
                end = self._ends.get(instruction.operands()[0], 0.0)
                self._ends[instruction.name] = end
                if instruction.opcode.endswith("-done"):
                    self._core = max(self._core, end)
            else:
                end = self._end(name, instruction)
                self._ends[instruction.name] = end
                if not instruction.opcode.endswith("-start"):
                    self._core = end

    def _run_loop(self, name: str, loop: Instruction) -> None:
        """Run the first round. Each of the others takes the core as long."""
        before = self._core
        self._run(loop.attribute("body"))
        other_rounds = (self._core - before) * (self._program.rounds(name, loop) - 1)
        self._core += other_rounds
        self._links += other_rounds
        self._host += other_rounds

    def _end(self, name: str, instruction: Instruction) -> float:
        """When an instruction that begins now is done."""
        estimate = re.search(r'"estimated_cycles":"(\d+)"', instruction.rest)
        cycles = int(estimate.group(1)) if estimate else 0
        if cycles >= _KNOWN:
            cycles = 0
        end = self._core + cycles / CLOCK + attention(instruction) / (PEAK / 2)
        if instruction.opcode == "copy-start" and "S(5)" in instruction.shape:  # the host's memory
            self._host = max(self._host, self._core) + instruction.arrays()[0].size / HOST
            return self._host
        size = received(name, instruction, self._chips)[1]
        for called in instruction.called():
            size += sum(received_bytes(self._program, self._chips, called).values())
        if size:
            self._links = max(self._links, self._core) + size / CHIPS
            end = max(end, self._links)
        return end
