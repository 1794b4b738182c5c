"""Names that the plan fixes and that somebody has already."""

from collections.abc import Iterator

from cloud import records
from cloud.inputs import is_unknown
from cloud.storage import BUCKET
from engine.plan import Planned
from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.leftovers.kinds import ListedKind, listed_kinds
from operations.leftovers.thing import Place
from operations.plan import StackPlan


def check_names(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """That nothing else has them; what has this stack's label is the stack itself, from an earlier `up`."""
    # A name that Pulumi makes up is no input of a plan.
    kinds = {kind.type: kind for kind in listed_kinds() if kind.name_input and not kind.holders}
    free = []
    for resource in plan.resources:
        kind = kinds.get(resource.type)
        name = kind and resource.inputs.get(kind.name_input)
        if not kind or not isinstance(name, str) or is_unknown(name):
            continue
        finding = _collision(plan, clients, resource, kind, name)
        if finding:
            yield finding
        else:
            free.append(name)
    if free:
        yield fine(f"free: {', '.join(free)}")


def _collision(
    plan: StackPlan, clients: Clients, resource: Planned, kind: ListedKind, name: str
) -> Finding | None:
    what = f"{resource.type.rpartition(':')[2].lower()} {name}"
    place = Place(clients=clients, project=plan.project, regions=(plan.region,))
    try:
        id_, _ = records.of(kind.type).made(name, resource.inputs, plan.project)
        found = kind.get(place, plan.region, id_.rpartition("/")[2])
    except CallError as error:
        # Names of buckets are the whole world's: somebody else's is forbidden, not missing.
        if kind.type == BUCKET.type and error.refused and not error.disabled:
            return problem(
                f"{what} belongs to somebody else",
                f"pulumi config set bucketName ANOTHER --stack {plan.stack}, or leave it out",
            )
        if not error.missing:
            raise
        return None
    own = resource.inputs.get("labels") or resource.inputs.get("resourceLabels") or {}
    if found.labels.get("stack") == own.get("stack"):
        return warning(
            f"{what} is there already, with the label of this stack",
            f"fine if the stack is up; else something was left behind: "
            f"python -m operations leftovers --stack {plan.stack}",
        )
    return problem(f"{what} is there already and is not this stack's", "rename or remove one of the two")
