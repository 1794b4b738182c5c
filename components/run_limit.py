"""The longest that a run may take, as the platforms say it."""

from typing import Final

SECONDS_PER_HOUR: Final = 3600


def run_limit(max_hours: int | None) -> dict[str, int]:
    """Entries of the spec of a Job or RayJob that ends the run after so many hours, none without a limit.

    A Job that Kueue suspends starts its time anew when it goes on.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
    """
    return {} if max_hours is None else {"activeDeadlineSeconds": max_hours * SECONDS_PER_HOUR}
