"""The figures of a compiled step. Compares two recipes, and checks the first against its limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.tpu_compile.collectives import KINDS
from maxtext_driver.recipe import Recipe

GIB = 2**30
MIB = 2**20

# The GiB of a v6e chip's 32 that XLA:TPU lets a program use: its error CompileTimeHbmOom says "exceeds
# available HBM (31.24G)".
HBM = int(31.24 * GIB)
HBM_TO_SPARE = 0.05
# The most traffic, as a share of the reference recipe's bytes per token.
TRAFFIC = 1 / 3
# The most operations, as a multiple of MaxText's count: all layers and their attention a second time.
OPERATIONS = 1.5

# Published seconds per step: the tutorial's log, and Google's README of its recipe with MaxText of 2025.
# https://github.com/AI-Hypercomputer/tpu-recipes/tree/main/training/trillium/Llama3.1-8B-MaxText/v6e-16
MEASURED = {"llama3-8b-tutorial": 1.100, "llama3-8b-published": 3.393}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one training step on one chip. `hbm` and `host` are peaks of memory in bytes.

    Attributes:
        operations: Floating-point operations of the compiled program, recomputation included.
        from_slices: Bytes received over the data centre's network, 0 with one slice.
        maxtext_operations: The operations that MaxText counts, without recomputation.
        estimate: Seconds, by a replay of the compiled schedule.
    """

    hbm: int
    host: int
    tokens: int
    received: dict[str, int]
    from_slices: int = 0
    operations: float
    maxtext_operations: float
    estimate: float
    compile_seconds: float

    @property
    def received_per_token(self) -> float:
        """The bytes that a chip receives for each token that it trains on."""
        return sum(self.received.values()) / self.tokens


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A recipe's name and figures."""

    name: str
    recipe: Recipe
    figures: Figures


def table(candidate: Compiled, reference: Compiled) -> Iterator[str]:
    """The two recipes as a table, for people and for the documentation."""
    yield f"| of one chip | {candidate.name} | {reference.name} |"
    yield "|---|---|---|"
    for label, value in _ROWS.items():
        yield f"| {label} | {value(candidate.figures)} | {value(reference.figures)} |"


def missed(candidate: Compiled, reference: Compiled) -> list[str]:
    """The limits that the first recipe exceeds, each with its figure."""
    spare = 1 - candidate.figures.hbm / HBM
    share = candidate.figures.received_per_token / reference.figures.received_per_token
    models = [compiled.recipe.maxtext["model_name"] for compiled in (candidate, reference)]
    problems = []
    if models[0] != models[1]:
        problems.append(f"model_name is {models[0]} and {models[1]}; it must be equal")
    counted = candidate.figures.operations / candidate.figures.maxtext_operations
    if not 1 <= counted <= OPERATIONS:
        problems.append(f"{counted:.2f} times the operations that MaxText counts: the meter is wrong")
    if spare < HBM_TO_SPARE:
        problems.append(f"{spare:.1%} of HBM to spare; it must be {HBM_TO_SPARE:.0%}")
    if share > TRAFFIC:
        problems.append(
            f"{share:.3f} of {reference.name}'s bytes per token; it must be at most {TRAFFIC:.3f}"
        )
    return problems


def summary(candidate: Compiled, reference: Compiled) -> Iterator[str]:
    """The figures that have limits, and the estimates with their errors."""
    spare = 1 - candidate.figures.hbm / HBM
    times = reference.figures.received_per_token / candidate.figures.received_per_token
    fewer = f"{times:.1f} times fewer bytes per token than {reference.name}"
    yield f"{candidate.name}: {spare:.1%} of HBM to spare, {fewer}"
    for compiled in (candidate, reference):
        if between := compiled.figures.from_slices:
            text = f"{between / GIB:.2f} GiB a step from other slices over the data centre's network"
            yield f"{compiled.name}: a chip receives {text}, which no estimate includes"
    for compiled in (candidate, reference):
        measured, estimate = MEASURED.get(compiled.name), compiled.figures.estimate
        error = "nobody measured it"
        if measured:
            error = f"{estimate / measured:.2f} of the {measured:.3f} s published"
        yield f"{compiled.name}: estimated {estimate:.2f} s a step, {error}; an estimate is no speed"


def _of(kind: str, figures: Figures) -> str:
    return f"{figures.received.get(kind, 0) / GIB:.2f}"


_ROWS = {
    "tokens per step": lambda figures: f"{figures.tokens:,}",
    "HBM, GiB of 31.24": lambda figures: f"{figures.hbm / GIB:.2f}",
    "memory of the host, GiB": lambda figures: f"{figures.host / GIB:.2f}",
    "received per step, GiB": lambda figures: f"{sum(figures.received.values()) / GIB:.2f}",
    **{f"of which {kind}": partial(_of, kind) for kind in KINDS},
    "received from other slices, GiB": lambda figures: f"{figures.from_slices / GIB:.2f}",
    "received per token, MiB": lambda figures: f"{figures.received_per_token / MIB:.2f}",
    "TFLOP per step, compiled": lambda figures: f"{figures.operations / 1e12:,.0f}",
    "the same by MaxText's count": lambda figures: f"{figures.maxtext_operations / 1e12:,.0f}",
    "estimated seconds per step": lambda figures: f"{figures.estimate:.2f}",
    "seconds to compile": lambda figures: f"{figures.compile_seconds:.0f}",
}
