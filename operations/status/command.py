"""`python -m operations status`."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from operations.clients import Clients
from operations.errors import OperationError
from operations.options import add_endpoint, add_json
from operations.state import Backend, State
from operations.status import chart
from operations.status.look import Look
from operations.status.report import Health, Line, Report

HELP: Final = "what the stack's workloads are doing now, and why something of it waits"

FINE: Final = 0
NEEDS_SOMEBODY: Final = 1
COULD_NOT_LOOK: Final = 2

_BETWEEN_LOOKS_S: Final = 10.0
_STYLES: Final = {Health.GOOD: "green", Health.WAITING: "yellow", Health.BAD: "red"}

Clock = Callable[[], datetime]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--stack", required=True, help="name of the stack, such as a4-ray")
    add_json(parser)
    add_endpoint(parser)
    parser.add_argument("--follow", action="store_true", help="look again every 10 seconds, until Ctrl-C")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the loss curve into an SVG file")
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="reach the cluster in this way, such as through a proxy, in place of its own address",
    )


def run(options: argparse.Namespace) -> int:
    """Looks and shows.

    Raises:
        OperationError: When there is no such stack, nothing of it is up, or an argument makes no sense.
    """
    if options.follow and (options.json or options.plot):
        raise OperationError("--follow shows a table again and again: leave --json and --plot out")
    if options.plot:
        chart.check(options.plot)
    state = Backend(options.stack).now()
    project = _project(state)
    if not project:
        raise OperationError(f"nothing of stack {options.stack} is up; pulumi up")
    look = Look(options.stack, state, Clients(project, options.endpoint), options.kubeconfig)
    if options.follow:
        return follow(look.report, Console(), time.sleep)
    report = look.report()
    if options.plot:
        _plot(report, options.plot)
    if options.json:
        print(json.dumps(as_json(report), indent=2))
    else:
        Console().print(drawn(report, datetime.now(UTC)))
    return status(report)


def status(report: Report) -> int:
    """The exit status: what needs somebody weighs more than what could not be looked at."""
    return NEEDS_SOMEBODY if any(report.bad) else COULD_NOT_LOOK if report.unseen else FINE


def follow(look: Callable[[], Report], console: Console, pause: Callable[[float], None]) -> int:
    """Shows one look after the other in the same place until it is interrupted."""
    report = look()
    try:
        with Live(drawn(report, datetime.now(UTC)), console=console, auto_refresh=False) as live:
            while True:
                pause(_BETWEEN_LOOKS_S)
                report = look()
                live.update(drawn(report, datetime.now(UTC)), refresh=True)
    except KeyboardInterrupt:
        return status(report)


def drawn(report: Report, now: datetime) -> RenderableType:
    """A report for a person."""
    table = Table(title=f"{report.stack}, {now:%Y-%m-%d %H:%M:%S} UTC", title_justify="left")
    for title in ("what", "name", "state", "", "why"):
        table.add_column(title, overflow="fold")
    for line in report.lines:
        state = Text(line.state, style=_STYLES[line.health])
        table.add_row(line.kind, line.name, state, line.detail, line.why.text if line.why else "")
    parts: list[RenderableType] = [table]
    if report.progress:
        parts.append(Text(f"training {report.progress.run}: {report.progress.line(now)}"))
    parts += [Text(f"{what}: {remedy}") for what, remedy in _remedies(report)]
    parts += [Text(f"could not look at {problem}") for problem in report.unseen]
    return Group(*parts)


def as_json(report: Report) -> dict[str, Any]:
    """A report for a program."""
    tree = asdict(report)
    return json.loads(json.dumps(tree, default=_plain))


def _remedies(report: Report) -> list[tuple[str, str]]:
    """What to do, once for all that wait for the same."""
    found: dict[str, list[Line]] = {}
    for line in report.lines:
        if line.why and line.why.remedy:
            found.setdefault(line.why.remedy, []).append(line)
    return [(_called(lines), remedy) for remedy, lines in found.items()]


def _called(lines: list[Line]) -> str:
    kind = lines[0].kind
    return f"{kind} {lines[0].name}" if len(lines) == 1 else f"{len(lines)} {kind}s"


def _plot(report: Report, file: Path) -> None:
    if not report.progress or not report.progress.losses:
        raise OperationError(f"--plot {file}: the training has not logged a loss yet")
    chart.draw(report.progress, file)


def _plain(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _project(state: State) -> str:
    """The project that the stack is in, as its resources name it."""
    found = (
        str(each.outputs.get("project") or "") for each in state.resources if each.type.startswith("gcp:")
    )
    return next(filter(None, found), "")
