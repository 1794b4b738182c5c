"""What the deployer may do, asked permission by permission: roles have other names in every company."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from operations.clients import Clients
from operations.findings import Finding, fine, problem
from operations.plan import StackPlan

# https://docs.cloud.google.com/resource-manager/reference/rest/v3/projects/testIamPermissions
_PER_CALL: Final = 100
_ACTS_AS: Final = "acts as a service account"
_NATIVE: Final = (
    "kubernetes:apps/",
    "kubernetes:batch/",
    "kubernetes:core/",
    "kubernetes:helm.sh/",
    "kubernetes:networking.k8s.io/",
    "kubernetes:policy/",
)


@cache
def _table() -> Mapping[str, Any]:
    return yaml.safe_load(Path(__file__).parent.parent.joinpath("permissions.yaml").read_text())


def needed(plan: StackPlan) -> dict[str, str]:
    """The permissions that the plan's resources need, each with the role that brings it.

    Raises:
        KeyError: For a type of resource that permissions.yaml does not have.
    """
    types = dict.fromkeys(
        _entry(resource.type) for resource in plan.resources if _makes_something(resource.type)
    )
    # Every scenario starts nodes, builds or instances as an account that it has made.
    types[_ACTS_AS] = None
    return {
        permission: _table()[name]["role"] for name in types for permission in _table()[name]["permissions"]
    }


def check_permissions(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That the credentials have every permission that the plan's resources need in the project."""
    wanted = needed(plan)
    granted: set[str] = set()
    names = sorted(wanted)
    for start in range(0, len(names), _PER_CALL):
        answer = clients.call(
            "cloudresourcemanager.v3",
            "projects.testIamPermissions",
            resource=f"projects/{plan.project}",
            body={"permissions": names[start : start + _PER_CALL]},
        )
        granted |= set(answer.get("permissions", ()))
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for permission in sorted(wanted.keys() - granted):
        missing[wanted[permission]].append(permission)
    for role, permissions in sorted(missing.items()):
        yield problem(
            f"missing: {', '.join(permissions)}",
            f"gcloud projects add-iam-policy-binding {plan.project} --member user:YOU --role {role}",
        )
    if not missing:
        yield fine(f"all {len(wanted)} permissions that the plan needs")


def _makes_something(type_token: str) -> bool:
    return type_token.startswith(("gcp:", "kubernetes:", "pulumi-python:"))


def _entry(type_token: str) -> str:
    if type_token.startswith("kubernetes:") and not type_token.startswith(_NATIVE):
        return "kubernetes:*"
    return type_token
