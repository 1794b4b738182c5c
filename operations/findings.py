"""Findings of checks, printed for a person or as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.text import visible


class Level(StrEnum):
    """How bad it is."""

    FINE = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "not checked"


COLOURS: Final = dict(zip(Level, ("green", "yellow", "red", "magenta"), strict=True))


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Args:
        what: The finding, in a sentence or less.
        remedy: What to do, as a command if there is one. Empty if there is nothing to do.
        topic: The subject of the check, such as `quotas`.
    """

    level: Level
    what: str
    remedy: str = ""
    topic: str = ""


# OK: all is well. WARNING: `up` can succeed, but look at it. PROBLEM: `up` fails, or is useless. UNKNOWN: no
# answer.
fine, warning, problem, unknown = (partial(Finding, level) for level in Level)


def exit_status(problems: object, unseen: object) -> int:
    """The exit status: 1 with a problem, else 2 with an unanswered question, else 0."""
    if problems:
        return 1
    return 2 if unseen else 0


def as_json(rows: Sequence[Any], **more: str) -> str:
    """Findings, or another command's rows, as JSON."""
    return json.dumps({**more, "findings": [asdict(row) for row in rows]}, indent=2)


def folding(title: str, *heads: str, lines: bool = False, figures: bool = False) -> Table:
    """An empty table. Its long words wrap. A table of figures has them below each other."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for head in heads:
        table.add_column(head, overflow="fold", justify="right" if figures else "left")
    return table


def cell(text: str) -> str:
    """A text of a server for a table. Neither rich nor the terminal interprets its control sequences."""
    return escape(visible(text))


def show(
    rows: Iterable[tuple[str, StrEnum, str, str]],
    title: str,
    console: Console,
    *heads: str,
    colours: Mapping[Any, str],
) -> None:
    """Prints rows of topic, level and two texts as a table, and the number of rows of each level.

    Args:
        heads: Titles of the columns of topics and of the two texts.
        colours: The colours of the levels, in the order of the counts.
    """
    table = folding(title, heads[0], "", *heads[1:], lines=True)
    for column in table.columns[2:]:
        column.ratio = 3
    shown, counts = "", Counter[StrEnum]()
    for topic, level, *texts in rows:
        table.add_row("" if topic == shown else topic, f"[{colours[level]}]{level}[/]", *map(cell, texts))
        shown, counts[level] = topic, counts[level] + 1
    console.print(table)
    plural = (Level.WARNING, Level.PROBLEM)
    totals = []
    for level in colours:
        ending = "s" if level in plural and counts[level] != 1 else ""
        totals.append(f"{counts[level]} {level}{ending}")
    console.print(", ".join(totals))
