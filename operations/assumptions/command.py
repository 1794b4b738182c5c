"""`python -m operations first-run`."""

import argparse
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from rich.console import Console

from operations import findings, plan
from operations.assumptions.assumptions import Assumption, assumptions
from operations.assumptions.measurements import MEASUREMENTS, LiveStack
from operations.errors import ODD_ANSWER, OperationError
from operations.google.credentials import clients_of
from operations.options import add_kubeconfig, add_shared
from operations.previews.redaction import Redaction
from operations.state import Backend
from operations.status.cluster import from_kubeconfig

HELP: Final = "check this project's assumptions about the cloud with a stack that is up"


class Verdict(StrEnum):
    """The result for an assumption. Without a measurement a person checks it by hand."""

    DIFFERS = "differs"
    HOLDS = "holds"
    UNSEEN = "unseen"
    BY_HAND = "by hand"


_COLOURS: Final = dict(zip(Verdict, ("red", "green", "magenta", "cyan"), strict=True))


@dataclass(frozen=True, kw_only=True)
class Row(Assumption):
    """An assumption, with its measurement or the reason why there is none."""

    id: str
    verdict: Verdict
    seen: str

    @property
    def cells(self) -> tuple[str, Verdict, str, str]:
        """The table row: adds the consequence if the assumption differs, or how to check it by hand."""
        more = {Verdict.DIFFERS: self.otherwise, Verdict.HOLDS: ""}.get(self.verdict, self.look)
        return self.id, self.verdict, self.assumed, "\n".join(filter(None, (self.seen, more)))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_shared(parser)
    add_kubeconfig(parser)


def run(options: argparse.Namespace) -> int:
    """Shows every assumption. Returns 1 if one differs, 2 if one could not be measured, else 0."""
    logged_in = partial(clients_of, options.stack, "", options.endpoint)
    with Console(stderr=True).status(f"planning {options.stack}") as status:
        planned = plan.load(options.stack, is_sketch=True, first=logged_in)
        state = Backend(options.stack).now()
        reached = from_kubeconfig(options.kubeconfig) if options.kubeconfig else None
        clients = clients_of(planned.stack, planned.project, options.endpoint)
        stack = LiveStack(plan=planned, state=state, clients=clients, reached=reached)
        rows = []
        for id in assumptions():
            status.update(f"looking at {id}")
            rows.append(look(id, stack))
    if options.json:
        print(findings.as_json(rows, stack=planned.stack, region=planned.region))
    else:
        table = sorted((row.cells for row in rows), key=lambda cells: [*Verdict].index(cells[1]))
        title = f"first run of {planned.stack} in {planned.region}"
        heads = "id", "assumed", "seen, or how to look"
        findings.show(table, title, Console(), *heads, colours=_COLOURS)
    verdicts = {row.verdict for row in rows}
    return findings.exit_status(Verdict.DIFFERS in verdicts, Verdict.UNSEEN in verdicts)


def look(id: str, stack: LiveStack) -> Row:
    """The measurement of an assumption, without secrets and the project's name, because strangers read it."""
    verdict, measured = Verdict.BY_HAND, ""
    if id in MEASUREMENTS:
        try:
            holds, measured = MEASUREMENTS[id](stack)
            verdict = Verdict.HOLDS if holds else Verdict.DIFFERS
        except OperationError as error:
            verdict, measured = Verdict.UNSEEN, str(error)
        except ODD_ANSWER as error:
            verdict, measured = (
                Verdict.UNSEEN,
                f"the answer is not understood ({type(error).__name__}: {error})",
            )
    seen = Redaction().text(measured).replace(stack.plan.project, "PROJECT")
    return Row(id=id, verdict=verdict, seen=seen, **vars(assumptions()[id]))
