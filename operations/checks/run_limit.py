"""That a training ends by itself."""

from collections.abc import Iterator

from operations.clients import Clients
from operations.findings import Finding, fine, warning
from operations.plan import StackPlan


def check_run_limit(plan: StackPlan, _clients: Clients) -> Iterator[Finding]:
    """That a run ends by itself; what stays is in the cost of a forgotten month."""
    hours = plan.setting("maxRunHours")
    if hours is None:
        yield warning(
            "maxRunHours is not set: a run that hangs holds its accelerators until somebody looks",
            f"pulumi config set maxRunHours 8 --stack {plan.stack}",
        )
    else:
        yield fine(f"a run may train for {hours} hours")
