"""The images that the plan names by digest: that their registries have them."""

import re
from collections.abc import Iterator
from typing import Final

import requests
from requests.utils import parse_dict_header
from tenacity import retry_if_exception_type, retry_if_result

from operations.clients import Clients
from operations.errors import OperationError
from operations.findings import Finding, fine, problem, unknown
from operations.plan import StackPlan
from operations.retries import retrying
from operations.workloads import containers_of

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
# docker.io is the name in references; this is the registry behind it.
_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_ARTIFACT_REGISTRY: Final = "-docker.pkg.dev"
_REFERENCE: Final = re.compile(r"(?P<host>[^/]+\.[^/]+)/(?P<path>.+)@(?P<digest>sha256:[0-9a-f]{64})")
_MAY_PASS: Final = retry_if_exception_type(requests.RequestException) | retry_if_result(
    lambda answer: answer.status_code == 429 or answer.status_code >= 500
)


def check_images(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That every image exists; one that the stack builds does not yet."""
    named = (_REFERENCE.fullmatch(str(container.get("image"))) for container in containers_of(plan))
    images = {reference[0]: reference for reference in named if reference}
    if not images:
        yield fine("none that must exist before: the stack builds its own")
    for uri, reference in sorted(images.items()):
        host = _HOSTS.get(reference["host"], reference["host"])
        try:
            status = retrying(_MAY_PASS)(_ask, clients, host, reference).status_code
        except OperationError as error:
            yield unknown(str(error), "try again later")
            continue
        except requests.RequestException as error:
            yield unknown(f"{host} gives no answer ({type(error).__name__})", "try again later")
            continue
        if status == 200:
            yield fine(f"{uri} exists")
        elif status in (401, 403) and host.endswith(_ARTIFACT_REGISTRY):
            yield unknown(
                f"{uri}: these credentials may not look into its repository",
                "ask its owner for roles/artifactregistry.reader",
            )
        elif status in (401, 403, 404):
            yield problem(
                f"{uri} does not exist, or is not open to everybody",
                f"pulumi config set imageUri REGISTRY/IMAGE@sha256:DIGEST --stack {plan.stack}, "
                "or for one of stacks/pins.py: its newest digest there",
            )
        else:
            yield unknown(f"{host} answers with {status}", "try again later")


def _ask(clients: Clients, host: str, reference: re.Match[str]) -> requests.Response:
    """A registry's answer for an image: Artifact Registry's to these credentials, others' to anybody."""
    base = f"{clients.endpoint}/registry/{host}" if clients.endpoint else f"https://{host}"
    url = f"{base}/v2/{reference['path']}/manifests/{reference['digest']}"
    headers = {"Accept": _ACCEPT}
    if host.endswith(_ARTIFACT_REGISTRY):
        headers["Authorization"] = f"Bearer {clients.token()}"
    answer = requests.head(url, headers=headers, timeout=_TIMEOUT_S)
    if answer.status_code != 401 or "Authorization" in headers:
        return answer
    # Anybody gets a token, from where the answer to a call without one says.
    challenge = parse_dict_header(answer.headers.get("WWW-Authenticate", "").removeprefix("Bearer "))
    answer = requests.get(str(challenge.pop("realm", "")), params=challenge, timeout=_TIMEOUT_S)
    if not answer.ok:
        return answer
    given = answer.json()
    headers["Authorization"] = f"Bearer {given.get('token') or given.get('access_token')}"
    return requests.head(url, headers=headers, timeout=_TIMEOUT_S)
