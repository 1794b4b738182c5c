"""The folder of a run, as the trainer leaves it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ANSWERS = 24
# Rows and models write what they like.
HOSTILE = "<script>document.title = 'taken over'</script><img src='http://127.0.0.1:9/x.png'>"


def step_line(step: int, **changes: float) -> dict[str, float]:
    """A line of the log after a step, in the form of `Progress` in workloads/finetune/run/metrics.py."""
    return {
        "step": step,
        "steps": 40,
        "loss": 2.5 - step / 40,
        "learning_rate": 1e-4,
        "grad_norm": 1.5,
        "tokens_per_second": 900.0,
        "seconds": 2.0,
        "seconds_left": 80.0 - 2 * step,
        **changes,
    }


def run_folder(folder: Path, *more: Mapping[str, Any], steps: int = 40) -> Path:
    """Writes the folder of a run with evaluations before and after its steps, and `more` lines in its log."""
    folder.mkdir()
    lines = [
        {"step": 0, "eval_loss": 2.75},
        {"step": 0, "exact": 0.125, "judged": ANSWERS},
        *(step_line(step) for step in range(1, steps + 1)),
        {"step": steps, "eval_loss": 1.25},
        {"step": steps, "exact": 0.75, "judged": ANSWERS},
        *more,
    ]
    answers = [
        {"asked": f"question {row}", "reply": HOSTILE, "wanted": f"wanted {row}", "score": {"exact": 0.0}}
        for row in range(ANSWERS)
    ]
    record = {
        "recipe": {"model": {"name": "google/gemma-3-1b-it"}, "training": {"epochs": 3}},
        "workers": 8,
        "day": "2026-11-27",
        "versions": {"torch": "2.9.1"},
    }
    write_lines(folder / "metrics.jsonl", lines)
    write_lines(folder / "answers.jsonl", answers)
    for name, tree in (("run", record), ("COMPLETE", {"not_good": None}), ("time", {"seconds": 160})):
        (folder / f"{name}.json").write_text(json.dumps(tree))
    return folder


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Writes a file of JSON lines."""
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
