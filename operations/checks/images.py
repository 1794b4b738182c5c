"""Checks that registries have the images that the plan names."""

import re
from collections.abc import Iterator
from typing import Final

import requests
from requests.utils import parse_dict_header
from tenacity import retry_if_exception_type, retry_if_result

from cloud.inputs import is_unknown
from cloud.services.artifactregistry import REPOSITORY
from operations.cost.machines import containers_of
from operations.errors import ODD_ANSWER, OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.google.clients import Clients
from operations.google.headers import keep_headers
from operations.google.retries import retrying
from operations.plan import StackPlan

_TIMEOUT_S: Final = 20.0
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md
_ACCEPT: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
# References name it docker.io, or no registry at all. This is the server behind that name.
_HUB: Final = "registry-1.docker.io"
_OF_GOOGLE: Final = re.compile(r".+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io")
# https://github.com/distribution/reference/blob/main/reference.go
_REFERENCE: Final = re.compile(r"(?:([^/]*[.:][^/]*|localhost)/)?(.+?)(?::([^:/@]+))?(?:@(.+))?\Z")
_MAY_PASS: Final = retry_if_exception_type(requests.RequestException) | retry_if_result(
    lambda answer: answer.status_code == 429 or answer.status_code >= 500
)


def check_images(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that every image exists, except the image that the stack builds."""
    named = {str(container["image"]) for container in containers_of(plan) if container.get("image")}
    images = sorted(image for image in named if not is_unknown(image))
    if not images:
        yield fine("nothing to check: the stack builds its own image")
    own = [uri for uri in images if _is_from_own_mirror(plan, uri)]
    if own:
        yield fine(f"the stack's own mirror will have {len(own)} of the images")
    for uri in [image for image in images if image not in own]:
        host, path, version = _parsed(uri)
        try:
            status = retrying(_MAY_PASS)(_ask, clients, host, f"{path}/manifests/{version}").status_code
        except OperationError as error:
            yield unknown(str(error), "try again later")
            continue
        except (requests.RequestException, *ODD_ANSWER) as error:
            yield unknown(f"{host} gives no usable answer ({type(error).__name__})", "try again later")
            continue
        if status == 200:
            yield fine(f"{uri} exists")
        elif status in (401, 403) and _OF_GOOGLE.fullmatch(host):
            yield unknown(
                f"{uri}: these credentials cannot read its repository",
                "ask its owner for roles/artifactregistry.reader",
            )
        elif status in (401, 403, 404):
            yield problem(
                f"{uri} does not exist, or is not open to everybody",
                _remedy(plan, uri),
            )
        else:
            yield unknown(f"{host} answers with {status}", "try again later")


def _is_from_own_mirror(plan: StackPlan, uri: str) -> bool:
    """Whether an image comes from a repository that the plan creates, which may not exist yet."""
    repositories = plan.of_type(REPOSITORY.type)
    return any(
        resource.inputs.get("mode") == "VIRTUAL_REPOSITORY"
        and uri.split("/")[1:3] == [plan.project, resource.inputs["repositoryId"]]
        for resource in repositories
    )


def _remedy(plan: StackPlan, uri: str) -> str:
    for key in ("imageUri", "servingImage"):
        if uri == plan.setting(key):
            return f"pulumi config set {key} REGISTRY/IMAGE@sha256:DIGEST --stack {plan.stack}"
    registry = plan.setting("registry")
    if registry and uri.startswith(f"{registry}/"):
        return f"let {registry} mirror Docker Hub and registry.k8s.io (docs/in-a-company.md)"
    return "put its newest digest into stacks/pins.py"


def _parsed(uri: str) -> tuple[str, str, str]:
    """Registry and path of a reference, and its digest or else its tag."""
    ((host, path, tag, digest),) = _REFERENCE.findall(uri)
    if host in ("", "docker.io"):
        host, path = _HUB, path if "/" in path else f"library/{path}"
    return host, path, digest or tag or "latest"


def _ask(clients: Clients, host: str, image: str) -> requests.Response:
    """A registry's answer for an image. Only Google's registries get the credentials."""
    base = f"{clients.endpoint}/registry/{host}" if clients.endpoint else f"https://{host}"
    url = f"{base}/v2/{image}"
    headers = {"Accept": _ACCEPT}
    if _OF_GOOGLE.fullmatch(host):
        headers["Authorization"] = f"Bearer {clients.token()}"
    answer = requests.head(url, headers=headers, auth=keep_headers, timeout=_TIMEOUT_S)
    if answer.status_code != 401 or "Authorization" in headers:
        return answer
    # A token for anonymous users. The answer to a call without a token says where to get it.
    challenge = parse_dict_header(answer.headers.get("WWW-Authenticate", "").removeprefix("Bearer "))
    realm = challenge.pop("realm", None)
    if not realm:
        return answer
    answer = requests.get(realm, params=challenge, auth=keep_headers, timeout=_TIMEOUT_S)
    if not answer.ok:
        return answer
    tokens = answer.json()
    headers["Authorization"] = f"Bearer {tokens.get('token') or tokens.get('access_token')}"
    return requests.head(url, headers=headers, auth=keep_headers, timeout=_TIMEOUT_S)
