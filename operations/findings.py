"""What a check found, and how a person and a program read it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
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


_COLOURS: Final = {
    Level.FINE: "green",
    Level.WARNING: "yellow",
    Level.PROBLEM: "red",
    Level.UNKNOWN: "magenta",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found.

    Args:
        level: How bad it is.
        what: What is so, in a sentence or less.
        remedy: What to do, a command where there is one; empty when there is nothing to do.
        topic: What was checked, such as `quotas`.
    """

    level: Level
    what: str
    remedy: str = ""
    topic: str = ""


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


def exit_status(findings: Sequence[Finding]) -> int:
    """1 with a problem, 2 when something could not be looked at, else 0."""
    levels = {finding.level for finding in findings}
    if Level.PROBLEM in levels:
        return 1
    return 2 if Level.UNKNOWN in levels else 0


def as_json(findings: Sequence[Finding], **more: str) -> str:
    """The findings for a program."""
    rows = [
        {"topic": each.topic, "level": each.level, "what": each.what, "remedy": each.remedy}
        for each in findings
    ]
    return json.dumps({**more, "findings": rows}, indent=2)


def show(findings: Sequence[Finding], title: str, console: Console) -> None:
    """Prints the findings as a table, and how many there are of each kind."""
    table = Table(title=title, title_justify="left", show_lines=True)
    for name, ratio in (("check", None), ("", None), ("found", 3), ("what to do", 3)):
        table.add_column(name, overflow="fold", ratio=ratio)
    shown = ""
    for each in findings:
        topic = "" if each.topic == shown else each.topic
        shown = each.topic
        level = f"[{_COLOURS[each.level]}]{each.level}[/]"
        table.add_row(topic, level, escape(each.what), escape(each.remedy))
    console.print(table)
    console.print(", ".join(_count(findings, level) for level in Level))


def _count(findings: Sequence[Finding], level: Level) -> str:
    number = sum(each.level is level for each in findings)
    several = number != 1 and level in (Level.WARNING, Level.PROBLEM)
    return f"{number} {level}{'s' if several else ''}"
