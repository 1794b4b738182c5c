"""`python -m operations drift`: what has changed in the cloud since the last `up`."""

import argparse
from dataclasses import replace
from typing import Final

from cloud.services.container import CLUSTER
from engine.project import ROOT, known_stacks
from operations import network_policies
from operations.errors import OperationError
from operations.google.credentials import clients_of
from operations.previews import checkout, comment, sources
from operations.previews.changes import Kind, Previews, StackPreview
from operations.previews.forges import LIMITS
from operations.previews.redaction import Redaction
from operations.state import Backend

HELP: Final = "show what has changed in the cloud since the last `pulumi up`; changes nothing"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--stack",
        action="append",
        help="name of a stack; may be repeated; by default all stacks of this repository in the backend",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the drift of every stack. Returns 1 if there is some."""
    chosen = options.stack or sources.deployed() & set(known_stacks())
    stacks = tuple(_with_policies(sources.drift(stack)) for stack in sorted(chosen))
    previews = Previews(commit=checkout.head(ROOT), stacks=stacks)
    print(comment.render(previews, LIMITS["github"], title="What has changed in the cloud"), end="")
    return 1 if previews.failed or any(preview.changes or preview.warnings for preview in stacks) else 0


def _with_policies(preview: StackPreview) -> StackPreview:
    """Adds the changes of network policies, which the engine does not see."""
    if preview.failure:
        return preview
    try:
        state = Backend(preview.stack).now()
        projects = {cluster.project for cluster in state.of_type(CLUSTER.type)}
        added = [
            change
            for project in projects
            for change in network_policies.added(state, clients_of(preview.stack, project, None))
        ]
    except OperationError as error:
        unseen = Redaction().text(f"its NetworkPolicies were not compared with the cluster: {error}")
        return replace(preview, warnings=(*preview.warnings, unseen))
    seen = {change.name for change in preview.changes}
    new = tuple(change for change in added if change.name not in seen)
    updated = sum(change.kind is Kind.UPDATE for change in new)
    return replace(
        preview,
        changes=(*preview.changes, *new),
        warnings=(*preview.warnings, *map(network_policies.remedy, new)),
        unchanged=preview.unchanged - updated,
    )
