"""How far the runs are that a change ends or continues, as their bucket says."""

from dataclasses import replace

from engine.errors import EngineError
from operations.errors import OperationError
from operations.google.clients import Clients
from operations.google.credentials import clients_of
from operations.previews.changes import RunChange, StackPreview
from operations.state import Backend
from operations.status import metrics
from operations.status.run_files import RunInBucket


def with_steps(preview: StackPreview) -> StackPreview:
    """The same preview with the steps of its runs.

    A preview must not fail for want of them: the pipelines' identity may not read objects in a bucket.
    """
    if not preview.runs:
        return preview
    try:
        state = Backend(preview.stack).now()
        bucket = metrics.bucket_of(state.outputs)
        clients = clients_of(preview.stack, state.project, None)
        runs = tuple(_with_steps(run, clients, bucket) for run in preview.runs) if bucket else preview.runs
    except (OperationError, EngineError):
        return preview
    return replace(preview, runs=runs)


def _with_steps(run: RunChange, clients: Clients, bucket: str) -> RunChange:
    def progress(name: str) -> metrics.Progress | None:
        return metrics.read_run(RunInBucket(clients=clients, bucket=bucket, run=name))

    before = progress(run.before)
    after = progress(run.after) if run.after and not run.goes_on else None
    return replace(
        run,
        before_step=before.step if before else 0,
        steps=before.steps if before else None,
        after_step=after.step if after else 0,
        finished=bool(before and before.finished),
    )
