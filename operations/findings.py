"""What a check found, and how a person and a program read it."""

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
        what: What is so, in a sentence or less.
        remedy: What to do, a command where there is one; empty when there is nothing to do.
        topic: What was checked, such as `quotas`.
    """

    level: Level
    what: str
    remedy: str = ""
    topic: str = ""


# What is as it must be; what `up` gets over, or its owner may want; what makes `up` fail, or what it makes
# useless; what could not be looked at.
fine, warning, problem, unknown = (partial(Finding, level) for level in Level)


def exit_status(found: object, unseen: object) -> int:
    """1 when something was found, which weighs more than 2, when something could not be looked at; else 0."""
    return 1 if found else 2 if unseen else 0


def as_json(found: Sequence[Any], **more: str) -> str:
    """Findings, or another command's rows, for a program."""
    return json.dumps({**more, "findings": [asdict(each) for each in found]}, indent=2)


def folding(title: str, *heads: str, lines: bool = False) -> Table:
    """An empty table; long words are broken rather than cut."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def cell(text: str) -> str:
    """A text of somebody else's for a table: neither rich nor the terminal obeys what is in it."""
    return escape(visible(text))


def show(
    rows: Iterable[tuple[str, StrEnum, str, str]],
    title: str,
    console: Console,
    *heads: str,
    colours: Mapping[Any, str],
) -> None:
    """Prints rows of a topic, a level and two texts as a table, and how many there are of each level.

    Args:
        heads: What is above the topics and the two texts.
        colours: Of every level, in the order in which they are counted.
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
    texts = (f"{counts[each]} {each}{'s' * (each in plural and counts[each] != 1)}" for each in colours)
    console.print(", ".join(texts))
