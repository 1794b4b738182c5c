"""The images that the plan names by digest: that their registries have them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import requests
from tenacity import retry_if_exception_type, retry_if_result

from components.image import Image, ImageRepository
from operations.clients import Clients
from operations.errors import CallError, OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.plan import StackPlan
from operations.retries import retrying
from operations.workloads import containers_of

_TIMEOUT_S: Final = 20.0
_ATTEMPTS: Final = 3
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
# docker.io is the name in references; this is the registry behind it.
_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_REFERENCE: Final = re.compile(r"(?P<host>[^/]+\.[^/]+)/(?P<path>.+)@(?P<digest>sha256:[0-9a-f]{64})")


def check_images(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That every image exists; one that the stack builds does not yet."""
    images = _images(plan)
    if not images:
        yield fine("none that must exist before: the stack builds its own")
    for uri in images:
        place = Image.parse(uri).repository
        try:
            there = _in_artifact_registry(clients, uri, place) if place else _in_registry(clients, uri)
        except CallError as error:
            if not error.refused or error.disabled:
                raise
            yield unknown(
                f"{uri}: these credentials may not look into its repository",
                "ask its owner for roles/artifactregistry.reader",
            )
            continue
        except OperationError as error:
            yield unknown(str(error), "try again later")
            continue
        if there:
            yield fine(f"{uri} exists")
        else:
            yield problem(
                f"{uri} does not exist, or is not open to everybody",
                f"pulumi config set imageUri REGISTRY/IMAGE@sha256:DIGEST --stack {plan.stack}, "
                "or for one of stacks/pins.py: its newest digest there",
            )


def _images(plan: StackPlan) -> list[str]:
    named = (str(container.get("image")) for container in containers_of(plan))
    return sorted({uri for uri in named if _REFERENCE.fullmatch(uri)})


def _in_artifact_registry(clients: Clients, uri: str, place: ImageRepository) -> bool:
    image = uri.split("/", 3)[3]
    name = (
        f"projects/{place.project}/locations/{place.location}/repositories/{place.name}"
        f"/dockerImages/{quote(image, safe='@')}"
    )
    try:
        clients.call("artifactregistry.v1", "projects.locations.repositories.dockerImages.get", name=name)
    except CallError as error:
        if error.missing:
            return False
        raise
    return True


def _in_registry(clients: Clients, uri: str) -> bool:
    """Asks a registry as anybody."""
    parts = _REFERENCE.fullmatch(uri)
    assert parts
    host = _HOSTS.get(parts["host"], parts["host"])
    base = f"{clients.endpoint}/registry/{host}" if clients.endpoint else f"https://{host}"
    url = f"{base}/v2/{parts['path']}/manifests/{parts['digest']}"
    answer = _head(url, {})
    if answer.status_code == 401:
        answer = _head(url, {"Authorization": f"Bearer {_token(answer, host)}"})
    if answer.status_code in (401, 403, 404):
        return False
    if not answer.ok:
        raise OperationError(f"{host} answers with {answer.status_code}")
    return True


def _head(url: str, headers: Mapping[str, str]) -> requests.Response:
    overloaded = retry_if_result(lambda answer: answer.status_code == 429 or answer.status_code >= 500)
    attempts = retrying(retry_if_exception_type(requests.RequestException) | overloaded, _ATTEMPTS)
    try:
        return attempts(requests.head, url, headers={"Accept": _ACCEPT, **headers}, timeout=_TIMEOUT_S)
    except requests.RequestException as error:
        raise OperationError(f"{url}: no answer ({type(error).__name__})") from None


def _token(rejected: requests.Response, host: str) -> str:
    """A token for anybody, from where the answer to a call without one says."""
    challenge = dict(re.findall(r'(\w+)="([^"]*)"', rejected.headers.get("WWW-Authenticate", "")))
    realm = challenge.pop("realm", "")
    try:
        answer: Any = requests.get(realm, params=challenge, timeout=_TIMEOUT_S).json()
        return str(answer.get("token") or answer["access_token"])
    except (requests.RequestException, ValueError, LookupError, AttributeError):
        raise OperationError(f"{host} gives no token to anonymous readers") from None
