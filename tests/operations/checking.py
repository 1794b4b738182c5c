"""Asks the checks of `preflight` about a plan, against the tests' server."""

from operations import preflight
from operations.clients import Clients
from operations.findings import Finding, Level
from operations.plan import StackPlan
from tests.operations import good_project
from tests.operations.google_server import GoogleServer
from tests.operations.planned import PROJECT, planned


def good(server: GoogleServer, stack: str, *settings: str) -> StackPlan:
    """The plan of a stack, for which the server then has everything."""
    plan = planned(stack, *settings)
    good_project.plant(server, plan)
    return plan


def check(server: GoogleServer, plan: StackPlan, topic: str, timeout_s: float = 5.0) -> list[Finding]:
    """What a check finds."""
    clients = Clients(PROJECT, server.address, timeout_s=timeout_s)
    return preflight.check(topic, plan, clients)


def levels(findings: list[Finding]) -> set[Level]:
    """How bad they are."""
    return {finding.level for finding in findings}


def only(findings: list[Finding], level: Level) -> Finding:
    """The one finding of a level; it says what to do."""
    (found,) = [finding for finding in findings if finding.level is level]
    assert found.remedy or level is Level.FINE
    return found
