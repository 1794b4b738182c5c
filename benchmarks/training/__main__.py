"""How fast the shipped recipes train, compared with the tutorials' settings, on the same rows.

    python -m benchmarks.training

Every training is a process of its own, so that each has its own memory. On a CPU the seconds are one thread's
user time, with the kernel's time reported separately, so that other load on the machine does not count. The
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

from benchmarks.training.measure import CASES, Case, Measurement, measure  # noqa: E402
from benchmarks.training.stand_ins import make_data, make_models  # noqa: E402

T = TypeVar("T")
# This process only imports and never computes, so that it can be forked.
CONTEXT: Final = multiprocessing.get_context("fork")
SIDES: Final = ("tutorial", "recipe")
SIZES: Final = ("tiny", "mid")
# Runs of each side, alternating. The fastest counts, because other load disturbed it least.
RUNS: Final = 2
HEADER: Final = (
    "| case | model | settings | rows | steps | trained weights | reply tokens | seconds | kernel's "
    "| reply tokens/s | ratio | memory, MB | loss before | loss |\n" + "|---" * 14 + "|"
)
NOT_MEASURED: Final = {
    "kernel launches": "a row of 50 tokens a step leaves a GPU idle between kernels; a CPU is never idle",
    "bf16": "the recipes compute in bf16, tutorial 003 in fp32 weights; both sides were fp32 here",
    "NF4": "4-bit weights; both sides had plain ones here",
    "fused kernels": "a GPU has one for the loss and one for the attention, here they are many",
    "loader processes": "pictures decoded beside the training; both sides decoded in it or before it",
    "several GPUs": "shards; tutorial 000's copies of the vocabulary, synchronised every step",
}


def main() -> None:
    """Print the table row by row, then which aims were reached."""
    device = "gpu" if _apart(torch.cuda.is_available) else "cpu"
    with tempfile.TemporaryDirectory() as directory:
        stand_ins = Path(directory)
        _apart(_make_stand_ins, stand_ins)
        lines = [HEADER]
        print(HEADER, flush=True)
        verdicts = []
        for case in CASES:
            for size in SIZES:
                runs = [
                    {side: _apart(measure, case, size, side, stand_ins) for side in SIDES}
                    for _ in range(RUNS)
                ]
                sides = {side: min((run[side] for run in runs), key=_seconds) for side in SIDES}
                for line in _lines(case, size, sides):
                    print(line, flush=True)
                    lines.append(line)
                verdicts.append(_verdict(case, size, sides))
    if device == "cpu":
        verdicts += [f"not measured: {name} ({why})" for name, why in NOT_MEASURED.items()]
    print("\n" + "\n".join(verdicts))
    text = "\n".join(lines) + "\n\n" + "\n".join(f"- {verdict}" for verdict in verdicts) + "\n"
    (HERE / f"results-{device}.md").write_text(text)


def _seconds(measurement: Measurement) -> float:
    return measurement.seconds


def _lines(case: Case, size: str, sides: dict[str, Measurement]) -> list[str]:
    lines = []
    for side in SIDES:
        one = sides[side]
        ratio = f"{one.speed / sides['tutorial'].speed:.2f}"
        lines.append(
            f"| {case.name} | {size} | {side} | {case.rows[size]} | {one.steps} | {one.trainable:,} "
            f"| {one.reply_tokens} | {one.seconds:.1f} | {one.kernel_seconds:.1f} | {one.speed:.0f} "
            f"| {ratio} | {one.peak_bytes / 1e6:.0f} | {one.loss_before:.3f} | {one.loss:.3f} |"
        )
    return lines


def _verdict(case: Case, size: str, sides: dict[str, Measurement]) -> str:
    ratio = sides["recipe"].speed / sides["tutorial"].speed
    worse = sides["recipe"].loss - sides["tutorial"].loss
    return (
        f"{case.name}, {size}: {ratio:.2f} times the tutorial's reply tokens/s "
        f"(aim {case.aim}: {'reached' if ratio >= case.aim else 'missed'}), "
        f"loss {abs(worse):.3f} {'higher' if worse > 0 else 'lower'} at equal rows"
    )


def _make_stand_ins(path: Path) -> None:
    make_models(path)
    most = max(rows + case.test_rows for case in CASES for rows in case.rows.values())
    make_data(path, most)


def _apart(function: Callable[..., T], *arguments: object) -> T:
    """Call the function in a forked process, in which everything is imported and nothing was computed."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(function, arguments)


if __name__ == "__main__":
    main()
