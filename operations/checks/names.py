"""Checks names that the plan fixes: whether they are free, and which bucket a new name replaces."""

from collections.abc import Iterator

from cloud import records
from cloud.inputs import is_unknown
from cloud.services.storage import BUCKET
from engine.errors import EngineError
from operations.errors import CallError
from operations.findings import Finding, fine, problem, warning
from operations.google.clients import Clients
from operations.leftovers.kinds import ListedKind
from operations.plan import StackPlan
from operations.state import Backend, State


def check_names(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that no other resource has them. A resource with this stack's label is from an earlier `up`."""
    free = []
    for resource in plan.resources:
        record = records.every().get(resource.type)
        if not record or not record.name or not record.listing or record.listing.inside:
            continue
        name = resource.inputs.get(record.name.input)
        # If Pulumi invents a name, the plan has no such input.
        if not isinstance(name, str) or is_unknown(name):
            continue
        kind = ListedKind(listing=record.listing, type=record.type)
        id_, _ = record.after_creation(name, resource.inputs, plan.project)
        try:
            existing = kind.get(clients, plan.project, plan.region, id_.rpartition("/")[2])
        except CallError as error:
            # All of Google shares the names of buckets: a bucket of somebody else is forbidden, not missing.
            if record is BUCKET and error.forbidden and not error.disabled:
                yield problem(
                    f"bucket {name} belongs to somebody else",
                    f"pulumi config set bucketName ANOTHER --stack {plan.stack}, or leave it out",
                )
            elif error.missing:
                free.append(name)
            else:
                raise
            continue
        what = f"{resource.type.rpartition(':')[2].lower()} {name} is there already"
        own = resource.inputs.get("labels") or resource.inputs.get("resourceLabels") or {}
        if existing.labels.get("stack") == own.get("stack"):
            yield warning(
                f"{what}, with the label of this stack",
                f"fine if the stack is up; otherwise something was left behind: "
                f"python -m operations leftovers --stack {plan.stack}",
            )
        else:
            yield problem(f"{what} and is not this stack's", "rename or remove one of the two")
    if free:
        yield fine(f"free: {', '.join(free)}")
    yield from _replaced_buckets(plan)


def _replaced_buckets(plan: StackPlan) -> Iterator[Finding]:
    """Warns of buckets, with what runs have written, that a later setting of the name replaces."""
    renamed = [
        bucket
        for bucket in plan.of_type(BUCKET.type)
        if isinstance(bucket.inputs.get("name"), str) and bucket.inputs.get("forceDestroy")
    ]
    if not renamed:
        return
    try:
        state = Backend(plan.stack).now()
    except EngineError:
        # Before its first `up` a stack has no state, and the user may not be logged in to a backend.
        state = State()
    for bucket in renamed:
        for old in state.of_type(BUCKET.type):
            name = bucket.inputs["name"]
            if old.name == bucket.name and old.physical_name != name:
                yield warning(
                    f"bucket {old.physical_name} of this stack is up: `pulumi up` deletes it, with the "
                    f"checkpoints in it, before it makes {name}",
                    f"copy them out first (gcloud storage cp --recursive gs://{old.physical_name} .), or "
                    f"pulumi config rm bucketName --stack {plan.stack}",
                )
