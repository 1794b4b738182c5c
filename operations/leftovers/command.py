"""`python -m operations leftovers`."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from operations import plan
from operations.clients import Clients
from operations.credentials import clients_of
from operations.errors import CallError, OperationError
from operations.findings import exit_status, folding
from operations.leftovers.footprint import Footprint, footprint
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
    parser.add_argument("--delete", action="store_true", help="delete what is certainly the stack's")
    parser.add_argument("--yes", action="store_true", help="with --delete: do not ask")


def run(options: argparse.Namespace) -> int:
    """Looks, shows, and deletes when told to.

    Raises:
        OperationError: When the plan, the state or the credentials are missing.
    """
    if options.yes and not options.delete:
        raise OperationError("--yes without --delete: there is nothing to say yes to")
    stack = plan.load(options.stack, options.set)
    clients = clients_of(options.stack, stack.project, options.endpoint)
    backend = Backend(options.stack)
    now = backend.now()
    earlier = [read(path) for path in options.state] or backend.earlier(clients)
    wanted = footprint(stack, now, earlier, backend.others())
    findings = search(clients, wanted, _log)
    if options.json:
        left = [
            {
                "kind": each.kind.title,
                **asdict(each.thing),
                **each.belonging._asdict(),
                "command": each.command,
            }
            for each in findings.left
        ]
        print(json.dumps({"left": left, "unseen": findings.unseen, "apisOff": findings.off}, indent=2))
    else:
        show(findings, wanted, now, Console())
    rest = [*findings.left]
    if options.delete:
        certain = [each for each in rest if each.belonging.sure and each.command]
        if not certain or options.yes or _agreed(options.stack, len(certain)):
            rest = [each for each in rest if each not in certain]
            rest += remove(clients, wanted.project, certain)
        _log(f"{len(findings.left) - len(rest)} of {len(findings.left)} deleted")
    return exit_status(rest, findings.unseen)


def show(findings: Findings, wanted: Footprint, now: State, console: Console) -> None:
    """The findings for a person."""
    if findings.left:
        title = f"left of {wanted.stack} in {wanted.project}"
        table = folding(title, "what", "name", "where", "why it is the stack's")
        for each in findings.left:
            name = f"{each.thing.name} ({each.thing.detail})" if each.thing.detail else each.thing.name
            why = f"{'' if each.belonging.sure else 'perhaps: '}{each.belonging.why}"
            table.add_row(each.kind.title, name, each.thing.location or "global", why)
        console.print(table)
    # To copy: nothing may break their lines.
    for sure, title in ((True, "to delete, in this order:"), (False, "perhaps another stack's; look first:")):
        commands = [each.command for each in findings.left if each.command and each.belonging.sure is sure]
        if commands:
            print("\n  ".join((title, *commands)))
    for each in findings.left:
        if each.thing.given_back:
            print(f"{each.kind.title} {each.thing.name}: {each.thing.given_back}")
    for problem in findings.unseen:
        print(f"could not look for {problem}")
    if findings.off:
        print(f"nothing to look at, its API is off: {', '.join(findings.off)}")
    if now.resources:
        count = sum(1 for each in now.resources if each.id)
        print(f"not listed: {count} resources in the state of {wanted.stack}; pulumi destroy removes them")
    if not findings.left and not findings.unseen:
        print(f"nothing is left of {wanted.stack} in {wanted.project}; its APIs stay enabled")


def remove(clients: Clients, project: str, left: Sequence[Leftover]) -> list[Leftover]:
    """Deletes one after the other, whatever fails; returns what is still there."""
    failed: list[Leftover] = []
    for each in left:
        title = f"{each.kind.title} {each.thing.name}"
        try:
            each.kind.delete(clients, each.thing, project)
        except OperationError as error:
            if isinstance(error, CallError) and error.missing:
                _log(f"{title} was gone already")
                continue
            failed.append(each)
            _log(f"{title} was not deleted: {error}")
        else:
            _log(f"{title} deleted")
    return failed


def _agreed(stack: str, count: int) -> bool:
    """Whether a person types the stack's name."""
    print(f"Type {stack} to delete these {count}: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == stack


def _log(text: str) -> None:
    """Standard output is the result alone."""
    print(text, file=sys.stderr)
