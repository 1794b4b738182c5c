"""Finds the server of a stack's model in the engine's state. A scenario's name says nothing about it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloud.services.cloudrun import SERVICE
from operations.errors import OperationError
from operations.state import Resource, State

_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
# In a list of words, or in a script of a shell.
_STARTS: Final = re.compile(r"(?:^|[\s/])vllm serve(?:\s|$)")
_DEFAULT_PORT: Final = 8000


@dataclass(frozen=True, kw_only=True)
class PodServer:
    """A Deployment of servers.

    Args:
        labels: Labels of its pods.
        port: Port on which a pod answers.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    port: int


@dataclass(frozen=True, kw_only=True)
class RunServer:
    """A Cloud Run service.

    Args:
        id: `projects/P/locations/L/services/S`.
        url: Its address.
        is_internal: Whether only the project's networks reach it.
    """

    id: str
    url: str
    is_internal: bool = False


def server_of(state: State, stack: str) -> PodServer | RunServer:
    """The stack's server of a model.

    Raises:
        OperationError: When nothing of the stack is up, or nothing of it serves.
    """
    if not state.project:
        raise OperationError(f"stack {stack} has no resources; create them with `pulumi up --stack {stack}`")
    server = next(_servers(state), None)
    if not server:
        raise OperationError(
            f"nothing of stack {stack} serves a model; docs/serving.md says how to serve what it has trained"
        )
    return server


def _servers(state: State) -> Iterator[PodServer | RunServer]:
    for resource in state.of_type(SERVICE.type):
        template = resource.inputs.get("template") or {}
        if _container(template.get("containers"), "commands", "args"):
            yield RunServer(
                id=resource.id,
                url=str(resource.outputs.get("uri", "")),
                is_internal=resource.inputs.get("ingress") == "INGRESS_TRAFFIC_INTERNAL_ONLY",
            )
    for resource in state.of_type(_DEPLOYMENT):
        if server := _deployed(resource):
            yield server


def _deployed(resource: Resource) -> PodServer | None:
    spec = resource.inputs.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    container = _container(pod.get("containers"), "command", "args")
    if not container:
        return None
    namespace, _, name = resource.id.rpartition("/")
    ports = container.get("ports") or [{"containerPort": _DEFAULT_PORT}]
    return PodServer(
        name=name,
        namespace=namespace or "default",
        labels=(spec.get("selector") or {}).get("matchLabels") or {},
        port=int(ports[0]["containerPort"]),
    )


def _container(containers: Any, *keys: str) -> Mapping[str, Any] | None:
    """The container that starts vLLM, None if no container does."""
    for container in containers or ():
        words = [word for key in keys for word in container.get(key) or ()]
        if _STARTS.search(" ".join(map(str, words))):
            return container
    return None
