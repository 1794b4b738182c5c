"""Checks that registries have the images that the plan names, and that the machines can run the user's."""

from collections.abc import Iterator
from typing import Final

import requests

from cloud.inputs import is_unknown
from cloud.services.artifactregistry import REPOSITORY
from operations.cost.machines import containers_of, pods_of
from operations.errors import ODD_ANSWER, OperationError
from operations.findings import Finding, Level, fine, problem, unknown, warning
from operations.google.clients import Clients
from operations.google.registry import RemoteImage
from operations.plan import StackPlan

# The platform of every machine in the catalogue.
_PLATFORM: Final = "linux/amd64"
_ROOT: Final = 0


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
        image = RemoteImage.parse(clients, uri)
        try:
            existence = _existence(plan, image, uri)
            yield existence
            if existence.level is Level.FINE and _key(plan, uri):
                yield from _fitness(plan, image, uri)
        except OperationError as error:
            yield unknown(str(error), "try again later")
        except (requests.RequestException, *ODD_ANSWER) as error:
            yield unknown(f"{image.host} gives no usable answer ({type(error).__name__})", "try again later")


def _existence(plan: StackPlan, image: RemoteImage, uri: str) -> Finding:
    """Whether the registry has an image."""
    status = image.status()
    if status == 200:
        return fine(f"{uri} exists")
    if status in (401, 403) and image.is_googles:
        return unknown(
            f"{uri}: these credentials cannot read its repository",
            "ask its owner for roles/artifactregistry.reader",
        )
    if status in (401, 403, 404):
        return problem(f"{uri} does not exist, or is not open to everybody", _remedy(plan, uri))
    return unknown(f"{image.host} answers with {status}", "try again later")


def _fitness(plan: StackPlan, image: RemoteImage, uri: str) -> Iterator[Finding]:
    """Whether the machines can run an image, and as the user that its pods have."""
    contents = image.contents(_PLATFORM)
    if contents.user is None:
        platforms = ", ".join(contents.platforms) or "no platform"
        yield problem(
            f"{uri} is for {platforms}, and the machines are {_PLATFORM}",
            f"build it with `docker buildx build --platform {_PLATFORM}`, then {_remedy(plan, uri)}",
        )
    elif contents.is_roots and (users := _users(plan, uri)):
        cure = f"docker run --user {users[0]} --read-only --tmpfs /tmp {uri} shows what fails"
        as_root = f"; pulumi config set asRoot true --stack {plan.stack} runs it as root"
        yield warning(
            f"{uri} is made for root, and its pods run as user {users[0]}, who writes to /tmp alone",
            cure + (as_root if plan.has_key("asRoot") else ""),
        )


def _users(plan: StackPlan, uri: str) -> list[int]:
    """The users but root as whom pods run an image."""
    users = {
        pods.spec.get("securityContext", {}).get("runAsUser", _ROOT)
        for pods in pods_of(plan)
        if any(container.get("image") == uri for container in pods.spec["containers"])
    }
    return sorted(users - {_ROOT})


def _key(plan: StackPlan, uri: str) -> str:
    """The setting that names an image, empty for an image of the project's own."""
    return next((key for key in ("imageUri", "servingImage") if uri == plan.setting(key)), "")


def _is_from_own_mirror(plan: StackPlan, uri: str) -> bool:
    """Whether an image comes from a repository that the plan creates, which may not exist yet."""
    repositories = plan.of_type(REPOSITORY.type)
    return any(
        resource.inputs.get("mode") == "VIRTUAL_REPOSITORY"
        and uri.split("/")[1:3] == [plan.project, resource.inputs["repositoryId"]]
        for resource in repositories
    )


def _remedy(plan: StackPlan, uri: str) -> str:
    if key := _key(plan, uri):
        return f"pulumi config set {key} REGISTRY/IMAGE@sha256:DIGEST --stack {plan.stack}"
    registry = plan.setting("registry")
    if registry and uri.startswith(f"{registry}/"):
        return f"let {registry} mirror Docker Hub and registry.k8s.io (docs/in-a-company.md)"
    return "put its newest digest into stacks/pins.py"
