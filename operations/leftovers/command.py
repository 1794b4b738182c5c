"""`python -m operations leftovers`."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from engine.text import visible
from operations import plan
from operations.credentials import clients_of
from operations.findings import cell, folding
from operations.leftovers.footprint import footprints
from operations.leftovers.search import Findings, Leftover, search
from operations.options import add_set, add_shared
from operations.state import Backend, State, read

HELP: Final = "after `pulumi destroy` or a failed `pulumi up`: what of the stack is still in the project"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_shared(parser)
    add_set(parser)
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="a state of the stack before, saved with `pulumi stack export`; may be repeated; "
        "in place of the backend's history",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the leftovers and deletes nothing. Returns 1 if there are some or a question stays open, else 0.

    Raises:
        OperationError: Without a plan, a state or credentials.
    """
    stack = plan.load(options.stack, options.set)
    clients = clients_of(options.stack, stack.project, options.endpoint)
    backend = Backend(options.stack)
    now = backend.now()
    earlier = [read(path) for path in options.state] or backend.earlier(clients)
    found = [
        search(clients_of(options.stack, wanted.project, options.endpoint), wanted, _log)
        for wanted in footprints(stack, now, earlier, backend.others())
    ]
    if options.json:
        print(json.dumps(_as_json(found), indent=2, default=str))
    else:
        for findings in found:
            show(findings, options.stack, Console())
        _note_states(options.stack, now, earlier)
    return 0 if all(findings.nothing for findings in found) else 1


def show(findings: Findings, stack: str, console: Console) -> None:
    """The findings in a project for a person."""
    if findings.left:
        title = f"left of {stack} in {findings.project}"
        table = folding(title, "what", "name", "where", "why it is the stack's")
        for each in findings.left:
            name = f"{each.thing.name} ({each.thing.detail})" if each.thing.detail else each.thing.name
            why = f"{'' if each.belonging.sure else 'perhaps: '}{each.belonging.why}"
            table.add_row(each.kind.title, *map(cell, (name, each.thing.location or "global", why)))
        console.print(table)
    for title, commands in _commands(findings):
        # A person copies these commands, so their lines must not wrap.
        print(visible("\n  ".join((title, *commands))))
    for each in findings.left:
        if each.thing.given_back:
            print(visible(f"{each.kind.title} {each.thing.name}: {each.thing.given_back}"))
    for problem in findings.unseen:
        print(visible(f"could not look for {problem}"))
    for remedy in findings.remedies:
        print(visible(f"to see it: {remedy}"))
    if findings.off:
        print(f"nothing to look at, its API is off in {findings.project}: {', '.join(findings.off)}")
    if findings.nothing:
        print(f"nothing is left of {stack} in {findings.project}; its APIs stay enabled")


def _commands(findings: Findings) -> Iterator[tuple[str, list[str]]]:
    """The commands that delete the leftovers, each group under what a person must know first."""
    parts: dict[str, list[Leftover]] = {
        "the stack's, to delete in this order; the commands do not ask:": [],
        "perhaps the stack's, look first; in this order:": [],
        "the stack's, when nothing of the above is in it any more:": [],
    }
    sure, perhaps, then = parts.values()
    for each in findings.left:
        if each.command:
            (then if each.waits else sure if each.belonging.sure else perhaps).append(each)
    for title, leftovers in parts.items():
        if leftovers:
            # A question would take the next copied line for its answer.
            quiet = "" if leftovers is perhaps else " --quiet"
            yield title, [f"{each.command}{quiet}" for each in leftovers]


def _note_states(stack: str, now: State, earlier: list[State]) -> None:
    """The resources that the engine knows."""
    if now.resources:
        count = sum(1 for each in now.resources if each.id)
        print(f"not listed: {count} resources in the state of {stack}; pulumi destroy removes them")
    if not earlier:
        print(f"no earlier state of {stack} is known, so only its labels and names were looked for")


def _as_json(found: list[Findings]) -> dict[str, Any]:
    left = [
        {
            "project": findings.project,
            "kind": each.kind.title,
            **asdict(each.thing),
            **each.belonging._asdict(),
            "waits": each.waits,
            "command": each.command,
        }
        for findings in found
        for each in findings.left
    ]
    return {
        "left": left,
        "unseen": [problem for findings in found for problem in findings.unseen],
        "remedies": [remedy for findings in found for remedy in findings.remedies],
        "apisOff": [f"{title} in {findings.project}" for findings in found for title in findings.off],
    }


def _log(text: str) -> None:
    """Standard output is the result alone."""
    print(text, file=sys.stderr)
