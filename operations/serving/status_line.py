"""The line of `status` about the served model, which it compares with its run."""

from collections.abc import Sequence
from contextlib import suppress

from operations.errors import OperationError
from operations.findings import Finding, Level
from operations.google.clients import Clients
from operations.serving.check import Check, verdicts
from operations.serving.connection import cluster_of, forwarded
from operations.serving.server import PodServer, RunServer, ServedModel, servers
from operations.state import State
from operations.status.cluster import Cluster
from operations.status.report import Line, Why, line

_KIND = "served model"


class ServedModelLine:
    """Compares the served model at the first look that finds a server, and keeps the result."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def lines(self, stack: str, state: State, clients: Clients, reached: Cluster | None) -> list[Line]:
        """One line for each run that a stack serves.

        Args:
            reached: Reaches the cluster, in place of GKE's address.
        """
        server = next(servers(state), None)
        models = [model for model in server.models if model.run] if server else []
        if not server or not models:
            return []
        command = f"python -m operations verify --stack {stack}"
        if isinstance(server, RunServer):
            # A request would start an instance, and cost minutes of its GPU.
            return [line(_KIND, model.name, "not compared", command) for model in models]
        with suppress(OperationError):
            self._lines = self._lines or _compared(stack, server, models, state, clients, reached)
        return self._lines or [line(_KIND, model.name, "not compared", waits=True) for model in models]


def _compared(
    stack: str,
    server: PodServer,
    models: Sequence[ServedModel],
    state: State,
    clients: Clients,
    reached: Cluster | None,
) -> list[Line]:
    checks = [Check.read(model, clients) for model in models]
    cluster = reached or cluster_of(state, clients)
    with forwarded(cluster, server, stack, state.project) as connection:
        return [
            _line_of(model, list(verdicts(connection, model, check)))
            for model, check in zip(models, checks, strict=True)
        ]


def _line_of(model: ServedModel, findings: Sequence[Finding]) -> Line:
    problem = next((finding for finding in findings if finding.level is Level.PROBLEM), None)
    if problem:
        why = Why(text=problem.what, remedy=problem.remedy)
        return line(_KIND, model.name, "not as trained", why=why)
    if any(finding.level is Level.UNKNOWN for finding in findings):
        return line(_KIND, model.name, "not compared", findings[-1].what)
    return line(_KIND, model.name, "as trained")
