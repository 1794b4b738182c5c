"""Measures how fast the shipped recipes train, compared with trl used well.

    python -m benchmarks.training

Every training is a process of its own, so that each has its own memory. On a CPU the seconds are one thread's
user time, so that other load on the machine does not count. The kernel's time is reported separately. The
table is also written to benchmarks/training/results-cpu.md or results-gpu.md.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "workloads"))
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch  # noqa: E402
import trl  # noqa: E402

from benchmarks.training import tokens  # noqa: E402
from benchmarks.training.measure import (  # noqa: E402
    CASES,
    LIBRARY,
    MOST_ROWS,
    PACKED,
    PADDED,
    RECIPE,
    WHOLE_PROMPTS,
    Case,
    Measurement,
    commit,
    measure,
)
from benchmarks.training.stand_ins import make_data, make_models  # noqa: E402

T = TypeVar("T")
# This process only imports and never computes, so that it can be forked. With a GPU the imports touch CUDA,
# and then a forked process cannot use it.
CONTEXT: Final = multiprocessing.get_context("spawn" if torch.cuda.is_available() else "fork")
SIZES: Final = ("tiny", "mid")
# Runs of each side, alternating. The fastest counts, because other load disturbed it least.
RUNS: Final = 2
HEADER: Final = (
    "| case | model | settings | rows | steps | trained weights | reply tokens | seconds | kernel's "
    "| reply tokens/s | to trl | memory, MB | loss before | loss |\n" + "|---" * 14 + "|"
)
NOT_MEASURED: Final = {
    "kernel launches": "a row of 50 tokens a step leaves a GPU idle between kernels; a CPU is never idle",
    "bf16": "the recipes compute in bf16; all were fp32 here",
    "NF4": "4-bit weights; all had plain ones here",
    "fused kernels": "a GPU has one for the loss and one for the attention, here they are many",
    "loader processes": "pictures decoded beside the training; here in it or before it",
    "several GPUs": "shards, and gradients that are sent",
}


def main() -> None:
    """Print the table row by row, then the aims that were reached."""
    device = "gpu" if torch.cuda.is_available() else "cpu"
    lines = [f"Commit {commit()}; torch {torch.__version__}, trl {trl.__version__}.", "", HEADER]
    print("\n".join(lines), flush=True)
    verdicts = []
    with tempfile.TemporaryDirectory() as directory:
        stand_ins = Path(directory)
        _apart(_make_stand_ins, stand_ins)
        for case in CASES:
            wanted = [PADDED, RECIPE]
            if case.packed:
                wanted += [] if case.silent else [WHOLE_PROMPTS]
                wanted += [PACKED] if device == "gpu" else []
            for size in SIZES:
                sides = _fastest_runs(case, size, wanted, stand_ins)
                for line in _lines(case, size, sides):
                    print(line, flush=True)
                    lines.append(line)
                verdicts.append(_verdict(case, size, sides))
        lines += ["", "From conversations to packs, with all cores:", "", tokens.HEADER]
        lines += tokens.token_lines(tokens.ROWS, stand_ins)
        print("\n".join(lines[-5:]), flush=True)
    if device == "cpu":
        verdicts += [f"not measured: {name} ({why})" for name, why in NOT_MEASURED.items()]
    print("\n" + "\n".join(verdicts))
    text = "\n".join(lines) + "\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts) + "\n"
    (HERE / f"results-{device}.md").write_text(text)


def _fastest_runs(case: Case, size: str, sides: list[str], stand_ins: Path) -> dict[str, Measurement]:
    runs: dict[str, list[Measurement]] = {side: [] for side in sides}
    for _ in range(RUNS):
        for side in sides:
            runs[side].append(_apart(measure, case, size, side, stand_ins))
    return {side: min(measurements, key=_seconds) for side, measurements in runs.items()}


def _seconds(measurement: Measurement) -> float:
    return measurement.seconds


def _library(sides: dict[str, Measurement]) -> Measurement:
    """The faster measurement of trl's two ways."""
    return min((sides[side] for side in LIBRARY if side in sides), key=_seconds)


def _lines(case: Case, size: str, sides: dict[str, Measurement]) -> list[str]:
    lines = []
    for side, run in sides.items():
        lines.append(
            f"| {case.label} | {size} | {side} | {case.rows[size]} | {run.steps} | {run.trainable:,} "
            f"| {run.reply_tokens} | {run.seconds:.1f} | {run.kernel_seconds:.1f} | {run.speed:.0f} "
            f"| {run.speed / _library(sides).speed:.2f} | {run.peak_bytes / 1e6:.0f} "
            f"| {run.loss_before:.3f} | {run.loss:.3f} |"
        )
    return lines


def _verdict(case: Case, size: str, sides: dict[str, Measurement]) -> str:
    ours, trl_user = sides[RECIPE], _library(sides)
    ratio = ours.speed / trl_user.speed
    end = "reached" if ratio >= case.aim else "missed"
    findings = [
        f"{ratio:.2f} times as fast as trl (aim {case.aim}: {end})",
        f"loss {ours.loss:.3f}, trl's at the same rate {trl_user.loss:.3f}",
    ]
    if whole := sides.get(WHOLE_PROMPTS):
        findings.append(
            f"attention within rows alone {whole.speed / trl_user.speed:.2f}, "
            f"the prefix beyond it {ours.speed / whole.speed:.2f}"
        )
    return f"{case.label}, {size}: {'; '.join(findings)}"


def _make_stand_ins(path: Path) -> None:
    make_models(path)
    make_data(path, max(MOST_ROWS, tokens.ROWS + tokens.TEST_ROWS), MOST_ROWS)


def _apart(function: Callable[..., T], *arguments: object) -> T:
    """Call the function in a forked process, which has imported everything and computed nothing."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(function, arguments)


if __name__ == "__main__":
    main()
