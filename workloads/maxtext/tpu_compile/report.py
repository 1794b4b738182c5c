"""The figures of a compiled step; compares those of two recipes, and checks the first against its limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from maxtext_driver.recipe import Recipe
from tpu_compile.collectives import KINDS

GIB = 2**30
MIB = 2**20

# The GiB of a v6e chip's 32 that XLA:TPU lets a program use: its error CompileTimeHbmOom says "exceeds
# available HBM (31.24G)".
HBM = int(31.24 * GIB)
HBM_TO_SPARE = 0.05
# As a share of the other recipe's bytes per token.
TRAFFIC = 1 / 3

# The settings that must be equal for a comparison.
SAME = ("model_name", "max_target_length")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one training step on one chip, in bytes; `hbm` and `host` are peaks of memory."""

    hbm: int
    host: int
    tokens: int
    received: dict[str, int]
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


def table(mine: Compiled, other: Compiled) -> Iterator[str]:
    """The two recipes as a table, for people and for the documentation."""
    yield f"| of one chip | {mine.name} | {other.name} |"
    yield "|---|---|---|"
    for label, value in _ROWS.items():
        yield f"| {label} | {value(mine.figures)} | {value(other.figures)} |"


def missed(mine: Compiled, other: Compiled) -> list[str]:
    """The limits that the first recipe exceeds, each with its figure."""
    spare = 1 - mine.figures.hbm / HBM
    share = mine.figures.received_per_token / other.figures.received_per_token
    problems = [
        f"{key} is {mine.recipe.maxtext.get(key)!r} and {other.recipe.maxtext.get(key)!r}; it must be equal"
        for key in SAME
        if mine.recipe.maxtext.get(key) != other.recipe.maxtext.get(key)
    ]
    if spare < HBM_TO_SPARE:
        problems.append(f"{spare:.1%} of HBM to spare; it must be {HBM_TO_SPARE:.0%}")
    if share > TRAFFIC:
        problems.append(f"{share:.3f} of {other.name}'s bytes per token; it must be at most {TRAFFIC:.3f}")
    return problems


def summary(mine: Compiled, other: Compiled) -> str:
    """One line with the figures that have limits."""
    spare = 1 - mine.figures.hbm / HBM
    times = other.figures.received_per_token / mine.figures.received_per_token
    return (
        f"{mine.name}: {spare:.1%} of HBM to spare, {times:.1f} times fewer bytes per token than {other.name}"
    )


def _of(kind: str, figures: Figures) -> str:
    return f"{figures.received.get(kind, 0) / GIB:.2f}"


_ROWS = {
    "tokens per step": lambda figures: f"{figures.tokens:,}",
    "HBM, GiB of 31.24": lambda figures: f"{figures.hbm / GIB:.2f}",
    "memory of the host, GiB": lambda figures: f"{figures.host / GIB:.2f}",
    "received per step, GiB": lambda figures: f"{sum(figures.received.values()) / GIB:.2f}",
    **{f"of which {kind}": partial(_of, kind) for kind in KINDS},
    "received per token, MiB": lambda figures: f"{figures.received_per_token / MIB:.2f}",
    "seconds to compile": lambda figures: f"{figures.compile_seconds:.0f}",
}
