"""The line of `status` about the served model, which it compares with its run."""

from contextlib import suppress

from operations.errors import OperationError
from operations.findings import Level
from operations.google.clients import Clients
from operations.serving.check import Check, verdicts
from operations.serving.connection import cluster_of, forwarded
from operations.serving.server import PodServer, RunServer, servers
from operations.state import State
from operations.status.cluster import Cluster
from operations.status.report import Line, Why, line

_KIND = "served model"


class ServedModelLine:
    """Compares the served model at the first look that finds a server, and keeps the result."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def lines(self, stack: str, state: State, clients: Clients, reached: Cluster | None) -> list[Line]:
        """One line for a stack that serves a run, none for another.

        Args:
            reached: Reaches the cluster, in place of GKE's address.
        """
        server = next(servers(state), None)
        if not server or not server.model.run:
            return []
        command = f"python -m operations verify --stack {stack}"
        if isinstance(server, RunServer):
            # A request would start an instance, and cost minutes of its GPU.
            return [line(_KIND, server.model.name, "not compared", command)]
        with suppress(OperationError):
            self._lines = self._lines or [_compared(stack, server, state, clients, reached)]
        return self._lines or [line(_KIND, server.model.name, "not compared", waits=True)]


def _compared(stack: str, server: PodServer, state: State, clients: Clients, reached: Cluster | None) -> Line:
    check = Check.read(server.model, clients)
    cluster = reached or cluster_of(state, clients)
    with forwarded(cluster, server, stack, state.project) as connection:
        findings = list(verdicts(connection, server.model, check))
    problem = next((finding for finding in findings if finding.level is Level.PROBLEM), None)
    if problem:
        why = Why(text=problem.what, remedy=problem.remedy)
        return line(_KIND, server.model.name, "not as trained", why=why)
    if any(finding.level is Level.UNKNOWN for finding in findings):
        return line(_KIND, server.model.name, "not compared", findings[-1].what)
    return line(_KIND, server.model.name, "as trained")
