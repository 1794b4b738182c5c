"""Checks everything that a stack needs before its first `up`."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from rich.console import Console

from engine.command import ending
from engine.project import ROOT
from operations import findings, plan
from operations.checks.accounts import check_accounts, check_basic_roles, check_builder
from operations.checks.bucket import check_bucket
from operations.checks.data import check_data
from operations.checks.hub import check_chat_template, check_hub, token_of
from operations.checks.images import check_images
from operations.checks.key import check_key, check_topic
from operations.checks.names import check_names
from operations.checks.network import check_network
from operations.checks.places import check_places
from operations.checks.project import check_apis, check_permissions, check_project, check_run_limit
from operations.checks.quotas import check_quotas
from operations.checks.reservations import check_reservations
from operations.checks.served_run import check_served_model, check_served_run
from operations.errors import CallError, OperationError
from operations.findings import Finding, Level
from operations.google.clients import Clients
from operations.google.consumers import OwnProject, counted_here, off_elsewhere
from operations.google.credentials import clients_of
from operations.options import add_set, add_shared
from operations.plan import StackPlan
from operations.trial import try_recipe

HELP: Final = "check that the project has everything that a stack needs, before anything is created"

Check = Callable[[StackPlan, Clients], Iterator[Finding]]


def check_program(plan: StackPlan, _clients: Clients) -> Iterator[Finding]:
    """The program's own warnings."""
    return (findings.warning(text, "the stack's settings decide it") for text in plan.warnings)


CHECKS: Final[dict[str, Check]] = {
    "program": check_program,
    "project": check_project,
    "APIs": check_apis,
    "permissions": check_permissions,
    "accounts": check_accounts,
    "basic roles": check_basic_roles,
    "builder": check_builder,
    "key": check_key,
    "topic": check_topic,
    "places": check_places,
    "reservation": check_reservations,
    "quotas": check_quotas,
    "names": check_names,
    "bucket": check_bucket,
    "served run": check_served_run,
    "served model": check_served_model,
    "network": check_network,
    "Hugging Face": check_hub,
    "template": check_chat_template,
    "data": check_data,
    "images": check_images,
    "run limit": check_run_limit,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_shared(parser)
    add_set(parser)
    parser.add_argument(
        "--fit",
        action="store_true",
        help="compute the GPU memory that the recipe takes if it is not known, which takes minutes and needs "
        "the training environment",
    )
    parser.add_argument(
        "--trial",
        action="store_true",
        help="try the recipe on this machine's CPU, which takes minutes and needs the training environment",
    )


def run(options: argparse.Namespace) -> int:
    """Prints every finding. Returns 1 with a problem, 2 if a check got no answer, else 0."""
    logged_in = partial(clients_of, options.stack, "", options.endpoint)
    with Console(stderr=True).status(f"planning {options.stack}") as status:
        planned = plan.load(options.stack, options.set, first=logged_in)
        if options.fit and planned.fit_command:
            status.update("computing the memory of a training step")
            _compute_fit(planned)
            planned = plan.load(options.stack, options.set)
        clients = clients_of(planned.stack, planned.project, options.endpoint)
        results = []
        for topic in CHECKS:
            status.update(f"checking {topic}")
            results += check(topic, planned, clients)
        if options.trial:
            status.update("trying the recipe")
            results.append(try_recipe(planned))
    if options.json:
        print(findings.as_json(results, stack=planned.stack, project=planned.project, region=planned.region))
    else:
        title = f"preflight of {planned.stack} in {planned.project}, {planned.region}"
        console = Console(width=None if sys.stdout.isatty() else 110)
        rows = ((finding.topic, finding.level, finding.what, finding.remedy) for finding in results)
        findings.show(rows, title, console, "check", "found", "what to do", colours=findings.COLOURS)
    levels = {finding.level for finding in results}
    return findings.exit_status(Level.PROBLEM in levels, Level.UNKNOWN in levels)


def _compute_fit(planned: StackPlan) -> None:
    """Computes figures that the next plan of the stack reads.

    Raises:
        OperationError: When they cannot be computed, for example because no layer gets an adapter.
    """
    if not (ROOT / planned.fit_command[0]).exists():
        raise OperationError("--fit needs the training environment: make setup")
    token = token_of(planned)
    environment = {**os.environ, **({"HF_TOKEN": token} if token else {})}
    done = subprocess.run(
        planned.fit_command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [ending(done.returncode)])[-1]
        raise OperationError(f"the memory cannot be computed: {reason.removeprefix('error: ')}")


def check(topic: str, planned: StackPlan, clients: Clients) -> list[Finding]:
    """The findings on a topic. A question that Google does not answer is a finding too.

    Raises:
        OperationError: When Google does not answer at all.
    """
    results: list[Finding] = []
    try:
        results.extend(CHECKS[topic](planned, clients))
    except CallError as error:
        if topic == "project" and not error.status:
            raise OperationError(f"Google could not be asked: {error}") from None
        what, remedy = str(error), "try again later"
        if error.disabled and OwnProject(clients, planned.project).is_called(error.consumer) is False:
            what, remedy = off_elsewhere(error), counted_here(error, planned.project)
        elif error.disabled:
            what = f"{error.disabled} is not enabled"
            remedy = f"gcloud services enable {error.disabled} --project {planned.project}"
        elif error.forbidden:
            role = "roles/compute.viewer" if error.method.startswith("compute.") else "roles/viewer"
            remedy = f"ask for {role} on the project, then again"
        results.append(findings.unknown(what, remedy))
    return [replace(finding, topic=topic) for finding in results]
