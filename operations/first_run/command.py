"""`python -m operations first-run`."""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from operations import findings, plan
from operations.clients import Clients
from operations.errors import OperationError
from operations.first_run.assumptions import Assumption, assumptions
from operations.first_run.ground import Ground
from operations.first_run.measurements import MEASUREMENTS
from operations.options import add_kubeconfig, add_shared
from operations.previews.redaction import Redaction
from operations.state import Backend
from operations.status.cluster import from_kubeconfig

HELP: Final = "which of this project's assumptions about the cloud hold where the stack is up"


class Verdict(StrEnum):
    """What became of an assumption; what nothing measures is for a person to look at."""

    DIFFERS = "differs"
    HOLDS = "holds"
    UNSEEN = "unseen"
    BY_HAND = "by hand"


_COLOURS: Final = dict(zip(Verdict, ("red", "green", "magenta", "cyan"), strict=True))


@dataclass(frozen=True, kw_only=True)
class Row:
    """An assumption, and what was seen of it, or why it was not."""

    id: str
    assumed: str
    verdict: Verdict
    seen: str
    look: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_shared(parser)
    add_kubeconfig(parser)


def run(options: argparse.Namespace) -> int:
    """Shows every assumption; 1 when one differs, 2 when one could not be looked at, else 0."""
    with Console(stderr=True).status(f"planning {options.stack}") as status:
        planned, state = plan.load(options.stack), Backend(options.stack).now()
        given = from_kubeconfig(options.kubeconfig) if options.kubeconfig else None
        clients = Clients(planned.project, options.endpoint)
        ground = Ground(plan=planned, state=state, clients=clients, given=given)
        rows = []
        for each in assumptions().values():
            status.update(f"looking at {each.id}")
            rows.append(look(each, ground))
    if options.json:
        print(
            json.dumps(
                {"stack": planned.stack, "region": planned.region, "rows": list(map(asdict, rows))}, indent=2
            )
        )
    else:
        _show(rows, f"first run of {planned.stack} in {planned.region}")
    verdicts = {row.verdict for row in rows}
    return findings.exit_status(Verdict.DIFFERS in verdicts, Verdict.UNSEEN in verdicts)


def look(assumption: Assumption, ground: Ground) -> Row:
    """What is seen of an assumption, in words without secrets and the project's name: others read it."""
    verdict, said = Verdict.BY_HAND, ""
    if assumption.id in MEASUREMENTS:
        try:
            holds, said = MEASUREMENTS[assumption.id](ground)
            verdict = Verdict.HOLDS if holds else Verdict.DIFFERS
        except OperationError as error:
            verdict, said = Verdict.UNSEEN, str(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            verdict, said = Verdict.UNSEEN, f"the answer is not understood ({type(error).__name__}: {error})"
    seen = Redaction().text(said).replace(ground.plan.project, "PROJECT")
    return Row(verdict=verdict, seen=seen, **assumption.model_dump(include={"id", "assumed", "look"}))


def _show(rows: list[Row], title: str) -> None:
    table = Table(title=title, title_justify="left", show_lines=True)
    for name, ratio in (("assumption", 3), ("", None), ("seen, or how to look", 3)):
        table.add_column(name, overflow="fold", ratio=ratio)
    for row in sorted(rows, key=lambda row: [*Verdict].index(row.verdict)):
        seen = (
            row.seen if row.verdict in (Verdict.DIFFERS, Verdict.HOLDS) else f"{row.seen}\n{row.look}".strip()
        )
        verdict = f"[{_COLOURS[row.verdict]}]{row.verdict}[/]"
        table.add_row(f"[bold]{row.id}[/]\n{escape(row.assumed)}", verdict, escape(seen))
    counts = Counter(row.verdict for row in rows)
    Console().print(table, ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict))
