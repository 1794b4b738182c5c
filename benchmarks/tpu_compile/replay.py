"""Estimates the seconds of a compiled step by a replay of its schedule: an estimate, never a measurement.

One chip's core, its links to other chips and its link to the host each do one thing at a time. The core's
time is the TPU compiler's own estimate of cycles; attention, of which it has none, takes half of the matrix
units, since a head is half as wide as they are. What is started runs beside the core until something waits.
"""

import re

from benchmarks.tpu_compile.arithmetic import attention
from benchmarks.tpu_compile.collectives import received, received_bytes
from benchmarks.tpu_compile.program import Instruction, Program

# Of a v6e chip, a second: cycles, operations (https://docs.cloud.google.com/tpu/docs/v6e) and bytes. 16 chips
# have no wraparound, so a corner has two links of 100 GB/s one way: https://jax-ml.github.io/scaling-book/tpus
CLOCK, PEAK, CHIPS, HOST = 1.75e9, 918e12, 200e9, 32e9
# What the compiler writes where it has no estimate is larger.
_KNOWN = 2**62


class Replay:
    """The times, in seconds, at which the core and the links of a chip have done what they were given."""

    def __init__(self, program: Program, chips: int):
        self._program, self._chips = program, chips
        self._core = self._links = self._host = 0.0
        self._ends: dict[str, float] = {}

    def seconds(self) -> float:
        """The time of the whole program."""
        self._run(self._program.entry)
        return max(self._core, self._links, self._host)

    def _run(self, name: str) -> None:
        for each in self._program.computations[name].values():
            if each.opcode == "while":
                before = self._core
                self._run(each.attribute("body"))
                more = (self._core - before) * (self._program.rounds(name, each) - 1)
                self._core, self._links, self._host = (
                    at + more for at in (self._core, self._links, self._host)
                )
            elif each.opcode == "call":
                self._run(next(each.called()))
            elif each.opcode.endswith(("-done", "-update")):
                self._ends[each.name] = self._ends.get(each.operands()[0], 0.0)
                if each.opcode.endswith("-done"):
                    self._core = max(self._core, self._ends[each.name])
            else:
                end = self._end(name, each)
                self._ends[each.name] = end
                if not each.opcode.endswith("-start"):
                    self._core = end

    def _end(self, name: str, each: Instruction) -> float:
        """When an instruction that begins now is done."""
        cycles = re.search(r'"estimated_cycles":"(\d+)"', each.rest)
        known = int(cycles.group(1)) if cycles and int(cycles.group(1)) < _KNOWN else 0
        end = self._core + known / CLOCK + attention(each) / (PEAK / 2)
        if each.opcode == "copy-start" and "S(5)" in each.shape:  # the host's memory
            self._host = max(self._host, self._core) + each.arrays()[0].size / HOST
            return self._host
        parts = [received_bytes(self._program, self._chips, called) for called in each.called()]
        if size := received(name, each, self._chips)[1] + sum(sum(part.values()) for part in parts):
            self._links = max(self._links, self._core) + size / CHIPS
            end = max(end, self._links)
        return end
