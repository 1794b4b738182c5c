"""`python -m operations leftovers`."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from engine.text import visible
from operations import plan
from operations.findings import cell, folding
from operations.google.credentials import clients_of
from operations.leftovers.footprint import footprints
from operations.leftovers.search import Findings, Leftover, search
from operations.options import add_set, add_shared
from operations.state import Backend, State, read

HELP: Final = "list what is left of a stack in its project after `pulumi destroy` or a failed `pulumi up`"


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
        help="an earlier state of the stack from `pulumi stack export`, in place of the backend's history; "
        "may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the leftovers and deletes nothing. Returns 1 if there are some or a question stays open, else 0.

    Raises:
        OperationError: Without a plan, a state or credentials.
    """
    logged_in = partial(clients_of, options.stack, "", options.endpoint)
    stack = plan.load(options.stack, options.set, is_sketch=True, first=logged_in)
    clients = clients_of(options.stack, stack.project, options.endpoint)
    backend = Backend(options.stack)
    now = backend.now()
    earlier = [read(path) for path in options.state] or backend.earlier(clients)
    projects = [
        search(clients_of(options.stack, wanted.project, options.endpoint), wanted, _log)
        for wanted in footprints(stack, now, earlier, backend.others())
    ]
    if options.json:
        print(json.dumps(_as_json(projects), indent=2, default=str))
    else:
        for findings in projects:
            show(findings, options.stack, Console())
        _note_states(options.stack, now, earlier)
    return 0 if all(findings.nothing for findings in projects) else 1


def show(findings: Findings, stack: str, console: Console) -> None:
    """The findings in a project for a person."""
    if findings.left:
        title = f"left of {stack} in {findings.project}"
        table = folding(title, "what", "name", "where", "why it is the stack's")
        for leftover in findings.left:
            name = (
                f"{leftover.candidate.name} ({leftover.candidate.detail})"
                if leftover.candidate.detail
                else leftover.candidate.name
            )
            why = f"{'' if leftover.belonging.sure else 'perhaps: '}{leftover.belonging.why}"
            table.add_row(
                leftover.kind.title, *map(cell, (name, leftover.candidate.location or "global", why))
            )
        console.print(table)
    for title, commands in _commands(findings):
        # A person copies these commands, so their lines must not wrap.
        print(visible("\n  ".join((title, *commands))))
    for leftover in findings.left:
        if leftover.candidate.given_back:
            print(
                visible(f"{leftover.kind.title} {leftover.candidate.name}: {leftover.candidate.given_back}")
            )
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
    for leftover in findings.left:
        if leftover.command:
            if leftover.waits:
                then.append(leftover)
            else:
                (sure if leftover.belonging.sure else perhaps).append(leftover)
    for title, leftovers in parts.items():
        if leftovers:
            # A question would take the next copied line for its answer.
            quiet = "" if leftovers is perhaps else " --quiet"
            yield title, [f"{leftover.command}{quiet}" for leftover in leftovers]


def _note_states(stack: str, now: State, earlier: list[State]) -> None:
    """Prints which states the search knew, and what it left out."""
    if now.resources:
        count = sum(1 for resource in now.resources if resource.id)
        print(f"not listed: {count} resources in the state of {stack}; pulumi destroy removes them")
    if not earlier:
        print(f"no earlier state of {stack} is known, so only its labels and names were looked for")


def _as_json(projects: list[Findings]) -> dict[str, Any]:
    left = [
        {
            "project": findings.project,
            "kind": leftover.kind.title,
            **asdict(leftover.candidate),
            **leftover.belonging._asdict(),
            "waits": leftover.waits,
            "command": leftover.command,
        }
        for findings in projects
        for leftover in findings.left
    ]
    return {
        "left": left,
        "unseen": [problem for findings in projects for problem in findings.unseen],
        "remedies": [remedy for findings in projects for remedy in findings.remedies],
        "apisOff": [f"{title} in {findings.project}" for findings in projects for title in findings.off],
    }


def _log(text: str) -> None:
    """Standard output is the result alone."""
    print(text, file=sys.stderr)
