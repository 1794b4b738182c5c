"""`python -m operations drift`: what has changed in the cloud since the last `up`."""

import argparse
from typing import Final

from engine.project import ROOT, known_stacks
from operations.previews import checkout, comment, sources
from operations.previews.changes import Previews
from operations.previews.forges import LIMITS

HELP: Final = "what has changed in the cloud since the last `pulumi up`; changes nothing itself"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--stack",
        action="append",
        help="name of a stack; may be repeated; by default those of this repository that the backend has",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the drift of every stack; 1 when there is some."""
    chosen = options.stack or sources.deployed() & set(known_stacks())
    stacks = tuple(sources.drift(stack) for stack in sorted(chosen))
    found = Previews(commit=checkout.head(ROOT), stacks=stacks)
    print(comment.render(found, LIMITS["github"], title="What has changed in the cloud"), end="")
    return 1 if found.failed or any(preview.changes for preview in stacks) else 0
