"""The first rows of a data set, and what a run makes of them."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from engine.project import ROOT
from operations.findings import Finding, fine, problem, warning

# Greatest number of bytes that are read from the beginning of a file.
MOST_BYTES: Final = 2**20
# Greatest number of characters that a finding shows of a turn.
_LONGEST: Final = 160
# It has what parquet, pictures and functions of the user need. They are read as a run does.
_TRAINING_PYTHON: Final = ROOT / ".venv-training/bin/python"
_MOST_ROWS: Final = 1000


class RowsError(Exception):
    """Why the rows of a file cannot be read. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class FirstRows:
    """What a run makes of the first rows of a file or data set.

    Args:
        columns: Names of all columns.
        outcomes: For each row its `turns`, or the `reason` and the `detail` why it is left out.
        whole: Whether there are no other rows.
        numbers: Places of the rows in the data set if some are left out. By default they follow each other.
    """

    columns: Sequence[str]
    outcomes: Sequence[Mapping[str, Any]]
    whole: bool = False
    numbers: Sequence[int] = ()

    @property
    def places(self) -> Sequence[int]:
        """The number of each row."""
        return self.numbers or range(len(self.outcomes))


def of_rows(data: Any, rows: Sequence[Mapping[str, Any]], *, whole: bool = False) -> FirstRows:
    """What a run makes of rows as they stand in a file.

    Args:
        data: The section of the recipe.
    """
    outcomes: list[Mapping[str, Any]] = []
    for row in rows:
        try:
            outcomes.append({"turns": data.conversation(row).turns})
        except ValueError as error:
            outcomes.append({"reason": getattr(error, "reason", str(error)), "detail": str(error)})
    columns = list(dict.fromkeys(chain.from_iterable(rows)))
    return FirstRows(columns=columns, outcomes=outcomes, whole=whole)


def of_content(data: Any, content: bytes, name: str, *, whole: bool) -> FirstRows:
    """What a run makes of the rows in the beginning of a file.

    Raises:
        RowsError: If a run ends at a row.
    """
    try:
        rows = [*data.rows_in(content, name, whole=whole)]
    except ValueError as error:
        raise RowsError(str(error)) from None
    return of_rows(data, rows, whole=whole)


def needs_training_environment(data: Any, name: str) -> bool:
    """Whether a library or a function of the user makes the rows."""
    return bool(name.endswith(".parquet") or data.image or data.hook)


def with_training_environment(data: Any, path: Path) -> FirstRows | None:
    """What a run makes of the first rows of a file on this disk, None without the training environment.

    Raises:
        RowsError: If the file cannot be read.
    """
    if not _TRAINING_PYTHON.exists():
        return None
    asked = {"data": data.model_dump(), "file": str(path), "count": _MOST_ROWS}
    done = subprocess.run(
        [_TRAINING_PYTHON, "-m", "finetune.rows.first"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "workloads")},
    )
    if done.returncode:
        raise RowsError((done.stderr.strip().splitlines() or ["it cannot be read"])[-1])
    return FirstRows(**json.loads(done.stdout.splitlines()[-1]))


def findings_of(data: Any, title: str, first: FirstRows) -> Iterator[Finding]:
    """What a run makes of the first rows of a file or data set.

    Args:
        data: The section of the recipe.
        title: Name of the file or data set.
    """
    if not first.outcomes:
        yield problem(f"{title} has no rows", "write one row a line")
        return
    missing = data.missing_columns(first.columns)
    if missing:
        yield problem(f"{title} {missing}", "name the file's columns in the section data of the recipe")
        return
    yield from _counted(data, title, first)
    for number, outcome in zip(first.places, first.outcomes, strict=True):
        if turns := outcome.get("turns"):
            yield fine(f"row {number} of {title} without the chat template: {_rendered(turns)}")
            return


def _counted(data: Any, title: str, first: FirstRows) -> Iterator[Finding]:
    """Whether enough rows are left, and which rows a run leaves out."""
    left_out = {
        number: outcome
        for number, outcome in zip(first.places, first.outcomes, strict=True)
        if "turns" not in outcome
    }
    usable, wanted = len(first.outcomes) - len(left_out), (data.limit or 1) + data.test_rows
    count = f"{len(left_out)} of {'all' if first.whole else 'the first'} {len(first.outcomes)} rows"
    if left_out:
        row = next(iter(left_out))
        detail = " ".join(left_out[row]["detail"].split())
        numbers = ", ".join(map(str, [*left_out][:5])) + (", ..." if len(left_out) > 5 else "")
        if first.whole and len(data.files) == 1 and len(left_out) > data.most_left_out * len(first.outcomes):
            yield problem(
                f"{title}, row {row} (the first is 0): {detail}; {count} cannot be trained: {numbers}",
                "correct them, or set data.most_left_out: a run ends there",
            )
            return
        yield warning(
            f"{title}: a run leaves out {count}: {numbers} (the first is 0). Row {row}: {detail}",
            f"correct them: a run ends if it leaves out more than {data.most_left_out} of the rows",
        )
    if first.whole and len(data.files) == 1 and usable < wanted:
        yield problem(
            f"{title} has {usable} usable rows, and the recipe takes {wanted}",
            "write more rows, fill texts that are empty, or lower data.rows and data.test_rows",
        )


def _rendered(turns: Sequence[dict[str, Any]]) -> str:
    parts = []
    for turn in turns:
        content, calls = turn["content"], turn.get("tool_calls")
        whole = content if isinstance(content, str) else "".join(map(_shown, content))
        text = " ".join(f"{whole} {json.dumps(calls) if calls else ''}".split())
        shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
        role = "assistant (trained)" if turn["role"] == "assistant" else turn["role"]
        parts.append(f"{role}: {shown}")
    return " | ".join(parts)


def _shown(part: Mapping[str, Any]) -> str:
    return part["text"] if part["type"] == "text" else f"[{part['type']}] "
