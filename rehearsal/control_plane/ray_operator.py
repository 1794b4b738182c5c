"""KubeRay's operator, which GKE's add-on installs. Here it is a process beside the API server.

CRDs, role and operator are the real ones. Ray itself runs only if pods run.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from engine import go_build
from rehearsal.control_plane.api import Api, Object, establish
from rehearsal.control_plane.controller import Controller
from rehearsal.control_plane.kwokctl import free_ports

# Parts of KubeRay's own installation: the kinds, and the operator's account with its rights.
_KINDS: Final = ("rayclusters", "rayjobs", "rayservices")
_RIGHTS: Final = ("service_account", "role", "role_binding")
_NAMESPACE: Final = "default"


def install(api: Api, operator: Controller, *, runs_pods: bool) -> None:
    """Installs the operator and waits until it is ready.

    Args:
        api: The API server.
        operator: Its process.
        runs_pods: Whether Ray runs.

    Raises:
        RehearsalError: If it does not become ready, with the end of its log.
    """
    kinds = [_without_descriptions(tree) for name in _KINDS for tree in _trees(f"crd/ray.io_{name}")]
    for tree in kinds:
        versions = [version for version in tree["spec"]["versions"] if version["storage"]]
        api.create({**tree, "spec": {**tree["spec"], "versions": versions}})
    account, *others = (tree for name in _RIGHTS for tree in _trees(f"rbac/{name}"))
    for tree in (account, *others):
        tree["metadata"]["namespace"] = _NAMESPACE
        for subject in tree.get("subjects", ()):
            subject["namespace"] = _NAMESPACE
        api.create(tree)
    establish(api, kinds)
    (health,) = free_ports(1)
    arguments = [
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
    ]
    environment = {}
    if runs_pods:
        # GKE's operator runs with the control plane, and asks Ray through the API server.
        arguments += ["--use-kubernetes-proxy"]
    else:
        # It would ask Ray at names that only a cluster resolves. A closed port refuses at once.
        environment = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
    operator.start(api, account, arguments, health=health, environment=environment)


def _trees(path: str) -> Iterator[Object]:
    text = (go_build.TOOLS / f"kuberay/{path}.yaml").read_text()
    yield from (tree for tree in yaml.load_all(text, Loader=yaml.CSafeLoader) if tree)


def _without_descriptions(schema: Any) -> Any:
    """A copy of a schema without descriptions, which cost the API server seconds.

    A property called description stays.
    """
    if isinstance(schema, dict):
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(item) for item in schema] if isinstance(schema, list) else schema
