"""`python -m operations status`."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from engine.text import visible
from operations.errors import OperationError
from operations.findings import cell, folding
from operations.google.credentials import clients_of
from operations.options import add_kubeconfig, add_shared
from operations.state import Backend
from operations.status.cluster import from_kubeconfig
from operations.status.look import More, look
from operations.status.report import Health, Line, Report

HELP: Final = "show what the stack's workloads are doing now, and why some of them wait"

_BETWEEN_LOOKS_S: Final = 10.0
_STYLES: Final = {Health.GOOD: "green", Health.WAITING: "yellow", Health.BAD: "red"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_shared(parser)
    parser.add_argument("--watch", action="store_true", help="look again every 10 seconds, until Ctrl-C")
    add_kubeconfig(parser)


def run(options: argparse.Namespace, more: More) -> int:
    """Prints the status and returns the exit status.

    Args:
        more: See `look`.

    Raises:
        OperationError: When there is no such stack, nothing of it is up, or an argument makes no sense.
    """
    if options.watch and options.json:
        raise OperationError("--watch shows a table again and again: leave --json out")
    state = Backend(options.stack).now()
    project = state.project
    if not project:
        raise OperationError(
            f"stack {options.stack} has no resources; create them with `pulumi up --stack {options.stack}`"
        )
    reached = from_kubeconfig(options.kubeconfig) if options.kubeconfig else None
    clients = clients_of(options.stack, project, options.endpoint)
    looks = partial(look, options.stack, state, clients, reached, more)
    if options.watch:
        return watch(looks, Console(), time.sleep)
    report = looks()
    if options.json:
        print(json.dumps(asdict(report), indent=2, default=str))
    else:
        Console().print(drawn(report, datetime.now(UTC)))
    return report.exit_status


def watch(looks: Callable[[], Report], console: Console, pause: Callable[[float], None]) -> int:
    """Repeats the report in the same place of the terminal until it is interrupted."""
    report = looks()
    try:
        with Live(drawn(report, datetime.now(UTC)), console=console, auto_refresh=False) as live:
            while True:
                pause(_BETWEEN_LOOKS_S)
                report = looks()
                live.update(drawn(report, datetime.now(UTC)), refresh=True)
    except KeyboardInterrupt:
        return report.exit_status


def drawn(report: Report, now: datetime) -> RenderableType:
    """Prints a report for a person. A remedy that several lines share is printed once."""
    title = f"{report.stack}, {now:%Y-%m-%d %H:%M:%S} UTC"
    table = folding(title, "what", "name", "state", "", "why")
    remedies: dict[str, list[Line]] = {}
    for line in report.lines:
        state = Text(visible(line.state), style=_STYLES[line.health])
        why = line.why.text if line.why else ""
        table.add_row(line.kind, cell(line.name), state, cell(line.detail), cell(why))
        if line.why and line.why.remedy:
            remedies.setdefault(line.why.remedy, []).append(line)
    notes = [f"training {report.progress.run}: {report.progress.line(now)}"] if report.progress else []
    if report.progress and report.progress.goodput:
        notes.append(report.progress.goodput.line)
    notes += [f"{_called(lines)}: {remedy}" for remedy, lines in remedies.items()]
    notes += [f"could not look at {problem}" for problem in report.unseen]
    notes += [f"{title}: {address}" for title, address in report.links.items()]
    return Group(table, *(Text(visible(note)) for note in notes))


def _called(lines: list[Line]) -> str:
    kind = lines[0].kind
    return f"{kind} {lines[0].name}" if len(lines) == 1 else f"{len(lines)} {kind}s"
