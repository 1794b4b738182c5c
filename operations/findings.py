"""What a check found, and how a person and a program read it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Level(StrEnum):
    """How bad it is."""

    FINE = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "not checked"


_COLOURS: Final = dict(zip(Level, ("green", "yellow", "red", "magenta"), strict=True))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found.

    Args:
        topic: What was checked, such as `quotas`.
        level: How bad it is.
        what: What is so, in a sentence or less.
        remedy: What to do, a command where there is one; empty when there is nothing to do.
    """

    topic: str = ""
    level: Level
    what: str
    remedy: str = ""


def fine(what: str) -> Finding:
    """Something that is as it must be."""
    return Finding(level=Level.FINE, what=what)


def warning(what: str, remedy: str) -> Finding:
    """Something that `up` gets over, or that its owner may want."""
    return Finding(level=Level.WARNING, what=what, remedy=remedy)


def problem(what: str, remedy: str) -> Finding:
    """Something that makes `up` fail, or what it makes useless."""
    return Finding(level=Level.PROBLEM, what=what, remedy=remedy)


def unknown(what: str, remedy: str) -> Finding:
    """Something that could not be looked at."""
    return Finding(level=Level.UNKNOWN, what=what, remedy=remedy)


def exit_status(found: object, unseen: object) -> int:
    """1 when something was found, which weighs more than 2, when something could not be looked at; else 0."""
    return 1 if found else 2 if unseen else 0


def as_json(findings: Sequence[Finding], **more: str) -> str:
    """The findings for a program."""
    return json.dumps({**more, "findings": [asdict(each) for each in findings]}, indent=2)


def show(findings: Sequence[Finding], title: str, console: Console) -> None:
    """Prints the findings as a table, and how many there are of each kind."""
    table = Table(title=title, title_justify="left", show_lines=True)
    for name, ratio in (("check", None), ("", None), ("found", 3), ("what to do", 3)):
        table.add_column(name, overflow="fold", ratio=ratio)
    shown = ""
    for each in findings:
        topic, shown = "" if each.topic == shown else each.topic, each.topic
        level = f"[{_COLOURS[each.level]}]{each.level}[/]"
        table.add_row(topic, level, escape(each.what), escape(each.remedy))
    console.print(table)
    counts = Counter(each.level for each in findings)
    console.print(", ".join(f"{counts[level]} {level}{_ending(level, counts[level])}" for level in Level))


def _ending(level: Level, count: int) -> str:
    return "s" if count != 1 and level in (Level.WARNING, Level.PROBLEM) else ""
