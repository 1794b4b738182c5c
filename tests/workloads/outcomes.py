"""Reading what a run has left."""

import json
from pathlib import Path


def losses(run: Path) -> list[float]:
    """The loss of every step of a run; fails unless the metrics have each step once, in order."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["loss"] for line in lines]
