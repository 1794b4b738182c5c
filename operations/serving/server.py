"""Finds the server of a stack's model in the engine's state. A scenario's name says nothing about it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Final

from cloud.services.cloudrun import SERVICE
from operations.errors import OperationError
from operations.state import Resource, State

_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
# In a list of words, or in a script of a shell.
_STARTS: Final = re.compile(r"(?:^|[\s/])vllm serve(?:\s|$)")
_DEFAULT_PORT: Final = 8000


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """The model in the command of a server.

    Args:
        name: By which callers ask for it.
        path: The folder that the server reads it from.
        bucket: Bucket of the run that the server mounts, empty if it mounts none.
        run: The run's folder in it.
    """

    name: str = ""
    path: str = ""
    bucket: str = ""
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class PodServer:
    """A Deployment of servers.

    Args:
        models: What it serves: one model, or several adapters.
        labels: Labels of its pods.
        port: Port on which a pod answers.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    port: int
    models: Sequence[ServedModel] = ()


@dataclass(frozen=True, kw_only=True)
class RunServer:
    """A Cloud Run service.

    Args:
        id: `projects/P/locations/L/services/S`.
        url: Its address.
        is_internal: Whether only the project's networks reach it.
        models: What it serves.
    """

    id: str
    url: str
    is_internal: bool = False
    models: Sequence[ServedModel] = ()


def server_of(state: State, stack: str) -> PodServer | RunServer:
    """The stack's server of a model.

    Raises:
        OperationError: When nothing of the stack is up, or nothing of it serves.
    """
    if not state.project:
        raise OperationError(f"stack {stack} has no resources; create them with `pulumi up --stack {stack}`")
    server = next(servers(state), None)
    if not server:
        raise OperationError(
            f"nothing of stack {stack} serves a model; docs/serving.md says how to serve what it has trained"
        )
    return server


def servers(state: State) -> Iterator[PodServer | RunServer]:
    """All servers of models of a stack."""
    for resource in state.of_type(SERVICE.type):
        template = resource.inputs.get("template") or {}
        if container := _container(template.get("containers"), "commands", "args"):
            words = _words(container, "commands", "args")
            yield RunServer(
                id=resource.id,
                url=str(resource.outputs.get("uri", "")),
                is_internal=resource.inputs.get("ingress") == "INGRESS_TRAFFIC_INTERNAL_ONLY",
                models=_served(words, template.get("volumes")),
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
        models=_served(_words(container, "command", "args"), pod.get("volumes")),
    )


def _container(containers: Any, *keys: str) -> Mapping[str, Any] | None:
    """The container that starts vLLM, None if no container does."""
    for container in containers or ():
        if _STARTS.search(" ".join(_words(container, *keys))):
            return container
    return None


def _words(container: Mapping[str, Any], *keys: str) -> list[str]:
    return [str(word) for key in keys for word in container.get(key) or ()]


def _served(words: list[str], volumes: Any) -> list[ServedModel]:
    """The model in a command, or its adapters, with the runs that are mounted in the same order."""
    runs = [run for run in map(_mounted_run, volumes or ()) if all(run)] or [("", "")]
    path = words[words.index("serve") + 1] if "serve" in words[:-1] else ""
    options = [part for word in words for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    values = dict(pairwise(options))
    adapters = _adapters(words) or [(values.get("--served-model-name", path), path)]
    return [
        ServedModel(name=name, path=folder, bucket=bucket, run=run)
        for (name, folder), (bucket, run) in zip(adapters, runs, strict=False)
    ]


def _adapters(words: list[str]) -> list[tuple[str, str]]:
    """Name and folder of the adapters in a command: the option has one or several, up to the next option."""
    starts = [place for place, word in enumerate(words) if word.partition("=")[0] == "--lora-modules"]
    if not starts:
        return []
    option, *rest = words[starts[-1] :]
    listed = [option.partition("=")[2], *takewhile(lambda word: word[:2] != "--", rest)]
    return [(name, folder) for name, _, folder in (word.partition("=") for word in listed) if folder]


def _mounted_run(volume: Mapping[str, Any]) -> tuple[str, str]:
    """Bucket and folder of a volume of a pod or of Cloud Run, empty if it is none of one folder."""
    attributes = (volume.get("csi") or {}).get("volumeAttributes") or volume.get("gcs") or {}
    options = attributes.get("mountOptions") or ""
    options = options.split(",") if isinstance(options, str) else options
    folders = [option.partition("=")[2] for option in options if option.startswith("only-dir=")]
    return str(attributes.get("bucketName") or attributes.get("bucket") or ""), "".join(folders)
