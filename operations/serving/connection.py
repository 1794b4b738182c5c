"""The way to a stack's server: a forwarded port of a pod, or a service's address with an identity token."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError

from cloud.services.container import CLUSTER
from operations.errors import ODD_ANSWER, CallError, OperationError
from operations.google.clients import Clients, last
from operations.serving.port_forward import PortForward
from operations.serving.server import PodServer, RunServer, server_of
from operations.state import State
from operations.status import cloud_run
from operations.status.cluster import Cluster, Object, from_google, from_kubeconfig
from operations.status.pods import holds, pods

_LOGIN: Final = "gcloud auth application-default login"
_INTERNAL: Final = (
    "the service takes requests from the project's networks alone; ask from a machine there, "
    "or: pulumi config set ingress all, and pulumi up"
)
# An instance that starts for the first request may take a quarter of an hour.
_TIMEOUT: Final = urllib3.Timeout(connect=20, read=900)
_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Connection:
    """Requests to a server.

    Args:
        url: Its address.
        token: An identity token, empty if the server takes none.
        starts: Whether the first request may have to wait for a server to start.
        remedies: What to do by the status of an answer that the server itself did not write.
        why: Says why the server does not answer. Empty if that is not known.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        starts: bool = False,
        remedies: Mapping[int, str] | None = None,
        why: Callable[[], str] = str,
    ) -> None:
        self.url, self.token, self.starts = url.rstrip("/"), token, starts
        self._remedies, self._why = remedies or {}, why

    def send(self, path: str, body: Any = None) -> urllib3.BaseHTTPResponse:
        """The answer to a GET, or with a body to a POST. It is read while it arrives.

        Raises:
            OperationError: Without an answer, or if the answer is an error.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            answer = urllib3.request(
                "POST" if body else "GET",
                f"{self.url}{path}",
                json=body,
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=_TIMEOUT,
            )
            if answer.status == HTTPStatus.OK:
                return answer
            message = _message(answer.read(decode_content=True).decode(errors="replace"))
        except (HTTPError, OSError) as error:
            raise self.broken(error) from None
        raise OperationError(self._reason(answer.status, message))

    def broken(self, error: Exception) -> OperationError:
        """The error when a connection broke."""
        return OperationError(self._why() or f"no answer from {self.url}: {error}")

    def _reason(self, status: int, message: str) -> str:
        answer = f"{status} {message}".strip()
        if status in self._remedies and not message:
            return f"{answer}; {self._remedies[status]}"
        if status in _BUSY:
            return self._why() or f"the server is busy ({answer}); ask again, or let more servers run"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._why() or f"the server failed: {answer}"
        return f"the server refuses it: {answer}"


@contextmanager
def connected(
    state: State, stack: str, clients: Callable[[], Clients], kubeconfig: Path | None = None, url: str = ""
) -> Generator[Connection]:
    """The connection to a stack's server.

    Args:
        clients: Returns the calls of Google, if there are any to make.
        kubeconfig: Reaches the cluster, in place of GKE's address.
        url: Reaches the server, in place of a forwarded port or of the service's own address.

    Raises:
        OperationError: When there is no server, or it cannot be reached.
    """
    server = server_of(state, stack)
    if isinstance(server, RunServer):
        yield _to_service(server, clients, url)
    elif url:
        yield Connection(url)
    else:
        cluster = from_kubeconfig(kubeconfig) if kubeconfig else cluster_of(state, clients())
        with forwarded(cluster, server, stack, state.project) as connection:
            yield connection


@contextmanager
def forwarded(cluster: Cluster, server: PodServer, stack: str, project: str) -> Generator[Connection]:
    """The connection to a pod of a server, through a forwarded port.

    Raises:
        OperationError: When no pod is ready, or the cluster does not answer.
    """
    name = _ready_pod(cluster, server, stack, project)["metadata"]["name"]
    with PortForward(partial(cluster.port_forward, server.namespace, name, server.port)) as forward:
        yield Connection(forward.address, why=lambda: _forward_failed(forward, project))


def _to_service(server: RunServer, clients: Callable[[], Clients], url: str) -> Connection:
    parts = server.id.split("/")
    grant = (
        "you may not call the service; add yourself to the setting invokers, or: gcloud run services "
        f"add-iam-policy-binding {parts[5]} --region {parts[3]} --project {parts[1]} --member user:YOU "
        "--role roles/run.invoker"
    )
    # On plain HTTP anybody could read a token.
    is_plain = url.startswith("http://")
    return Connection(
        url or server.url,
        token="" if is_plain else clients().identity_token(server.url),
        starts=True,
        remedies={
            HTTPStatus.UNAUTHORIZED: f"your identity token is not accepted; {_LOGIN}",
            HTTPStatus.FORBIDDEN: grant,
            **({HTTPStatus.NOT_FOUND: _INTERNAL} if server.is_internal else {}),
        },
        why=lambda: _not_ready(server, clients),
    )


def _not_ready(server: RunServer, clients: Callable[[], Clients]) -> str:
    """Why no revision of a service is ready. Empty if one is, or if that cannot be read."""
    try:
        line = cloud_run.service(clients(), server.id)
    except OperationError:
        return ""
    why = f": {line.why.text}" if line.why else ""
    return "" if line.state == "ready" else f"service {last(server.id)} is not ready{why}"


def cluster_of(state: State, clients: Clients) -> Cluster:
    """The stack's cluster at GKE's address.

    Raises:
        OperationError: When the stack has none, or GKE does not describe it.
    """
    resource = next(state.of_type(CLUSTER.type), None)
    if not resource:
        raise OperationError("the state has no cluster; say how to reach it with --kubeconfig FILE")
    described = clients.call("container.v1", "projects.locations.clusters.get", name=resource.id)
    return from_google(clients, described)


def _ready_pod(cluster: Cluster, server: PodServer, stack: str, project: str) -> Object:
    """A pod that answers.

    Raises:
        OperationError: When there is none, with the reason.
    """
    space = f"/api/v1/namespaces/{server.namespace}"
    try:
        trees = [pod for pod in cluster.every(f"{space}/pods") if _is_of(server, pod)]
    except CallError as error:
        raise _refused(error, project) from None
    ready = [pod for pod in trees if holds(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")]
    if ready:
        return ready[0]
    look = f"python -m operations status --stack {stack}"
    if not trees:
        raise OperationError(f"no server of {server.name} runs; start one (servingReplicas), or see {look}")
    lines = list(pods(trees, _events(cluster, space), lambda _pod, _container: ""))
    reasons = dict.fromkeys(line.why.text if line.why else line.state for line in lines)
    raise OperationError(f"no server of {server.name} is ready: {'; '.join(reasons)}; see {look}")


def _is_of(server: PodServer, pod: Object) -> bool:
    return server.labels.items() <= (pod["metadata"].get("labels") or {}).items()


def _events(cluster: Cluster, space: str) -> list[Object]:
    try:
        return cluster.every(f"{space}/events")
    except CallError:
        return []


def _forward_failed(forward: PortForward, project: str) -> str:
    return str(_refused(forward.problem, project)) if forward.problem else ""


def _refused(error: CallError, project: str) -> OperationError:
    """The error with the role that is missing, if one is."""
    if error.status not in _REFUSED:
        return error
    return OperationError(
        f"{error}; gcloud projects add-iam-policy-binding {project} --member user:YOU "
        "--role roles/container.developer"
    )


def _message(content: str) -> str:
    """The message of an error as vLLM or Google write it, in one line."""
    try:
        tree = json.loads(content)
        error = tree.get("error", tree)
        content = error["message"] if isinstance(error, dict) else error
    except ODD_ANSWER:
        # The page of a proxy, or of Cloud Run.
        content = "" if content.lstrip().startswith("<") else content
    return " ".join(str(content).split())[:300]
