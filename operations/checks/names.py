"""Names that the plan fixes and that somebody has already."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cloud.inputs import is_unknown
from engine.plan import Planned
from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.plan import StackPlan

Lookup = Callable[[StackPlan, Clients, str], Any]


def _bucket(_plan: StackPlan, clients: Clients, name: str) -> Any:
    return clients.api("storage.v1").buckets().get(bucket=name)


def _cluster(plan: StackPlan, clients: Clients, name: str) -> Any:
    path = f"projects/{plan.project}/locations/{plan.region}/clusters/{name}"
    return clients.api("container.v1").projects().locations().clusters().get(name=path)


def _secret(plan: StackPlan, clients: Clients, name: str) -> Any:
    return (
        clients.api("secretmanager.v1")
        .projects()
        .secrets()
        .get(name=f"projects/{plan.project}/secrets/{name}")
    )


def _repository(plan: StackPlan, clients: Clients, name: str) -> Any:
    path = f"projects/{plan.project}/locations/{plan.region}/repositories/{name}"
    return clients.api("artifactregistry.v1").projects().locations().repositories().get(name=path)


# The input that fixes the name, the call that finds whoever has it, and the field with the labels. Resources
# whose name Pulumi makes unique do not collide.
_NAMED: Final[Mapping[str, tuple[str, Lookup, str]]] = {
    "gcp:storage/bucket:Bucket": ("name", _bucket, "labels"),
    "gcp:container/cluster:Cluster": ("name", _cluster, "resourceLabels"),
    "gcp:secretmanager/secret:Secret": ("secretId", _secret, "labels"),
    "gcp:artifactregistry/repository:Repository": ("repositoryId", _repository, "labels"),
}


def check_names(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That nothing else has them; what has this stack's label is the stack itself, from an earlier `up`."""
    free = []
    for resource in plan.resources:
        named = _NAMED.get(resource.type)
        name = named and resource.inputs.get(named[0])
        if not named or not isinstance(name, str) or is_unknown(name):
            continue
        finding = _collision(plan, clients, resource, name, named)
        if finding:
            yield finding
        else:
            free.append(name)
    if free:
        yield fine(f"free: {', '.join(free)}")


def _collision(
    plan: StackPlan, clients: Clients, resource: Planned, name: str, named: tuple[str, Lookup, str]
) -> Finding | None:
    kind, (_, lookup, labels) = resource.type.rpartition(":")[2].lower(), named
    try:
        found = clients.call(lookup(plan, clients, name))
    except CallError as error:
        # Names of buckets are the whole world's: somebody else's is refused, not missing.
        if kind == "bucket" and error.refused and not error.disabled:
            return problem(
                f"bucket {name} belongs to somebody else",
                f"pulumi config set bucketName ANOTHER --stack {plan.stack}, or leave it out",
            )
        if not error.missing:
            raise
        return None
    own = resource.inputs.get("labels") or resource.inputs.get("resourceLabels") or {}
    if found.get(labels, {}).get("stack") == own.get("stack"):
        return warning(
            f"{kind} {name} is there already, with the label of this stack",
            f"fine if the stack is up; else something was left behind: "
            f"python -m operations leftovers --stack {plan.stack}",
        )
    return problem(
        f"{kind} {name} is there already and is not this stack's", "rename or remove one of the two"
    )
