"""What goes on costing when the stack is forgotten."""

from collections.abc import Iterator

from operations.clients import Clients
from operations.findings import Finding, fine, warning
from operations.machines import machines_of
from operations.plan import StackPlan
from operations.workloads import cloud_run_of, pods_of


def check_run_limit(plan: StackPlan, _clients: Clients) -> Iterator[Finding]:
    """That a run ends by itself, and what does not in spite of it."""
    hours = plan.setting("maxRunHours")
    if hours is None:
        yield warning(
            "maxRunHours is not set: a run that hangs holds its accelerators until somebody looks",
            f"pulumi config set maxRunHours 8 --stack {plan.stack}",
        )
    else:
        yield fine(f"a run may train for {hours} hours")
    destroy = f"pulumi destroy --stack {plan.stack} when nobody needs it; no limit ends it"
    for pods in [*pods_of(plan), *cloud_run_of(plan)]:
        if pods.accelerators and pods.kept:
            yield warning(
                f"{pods.resource} keeps {pods.kept * pods.accelerators} accelerators until it is destroyed",
                destroy,
            )
    for machines in machines_of(plan):
        if machines.zones and machines.type and machines.type.accelerator and machines.kept:
            yield warning(
                f"{machines.resource} keeps {machines.kept} {machines.type_name}, used or not", destroy
            )
