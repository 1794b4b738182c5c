"""The steps of runs that a merge request ends or continues come from the stack's bucket."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from operations.errors import CallError, OperationError
from operations.google.clients import Clients
from operations.previews import run_steps
from operations.previews.changes import RunChange, StackPreview
from operations.state import Backend, Resource, State
from tests.operations.google_server import REFUSED, Call, Fault, GoogleServer
from tests.operations.planned import PROJECT

OLD = b'{"step": 119, "steps": 300, "loss": 2.5}\n{"step": 120, "steps": 300, "loss": 2.0}\n'
NEW = b'{"step": 40, "steps": 300, "loss": 3.0}\n'
CHANGE = RunChange(before="old-1", after="new-2")
STATE = State(
    resources=(Resource(type="gcp:storage/bucket:Bucket", id="team", outputs={"project": PROJECT}),),
    outputs={"readMetrics": "gcloud storage cat gs://team/old-1/metrics.jsonl"},
)


@pytest.fixture
def steps(google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[RunChange, ...]]:
    """The runs of a preview, with a bucket that has these objects."""
    monkeypatch.setattr(Backend, "now", lambda _: STATE)
    monkeypatch.setattr(Backend, "__init__", lambda *_: None)
    monkeypatch.setattr(run_steps, "clients_of", lambda *_: Clients(PROJECT, google.address))

    def look(objects: dict[str, bytes], *runs: RunChange) -> tuple[RunChange, ...]:
        def answer(call: Call, _body: Any) -> Any:
            name = call.address["object"]
            if name not in objects:
                raise Fault(code=404)
            if call.query.get("alt") == "media":
                raise Fault(body=objects[name])
            return {"name": name, "updated": "2026-11-21T09:58:00.000Z"}

        google.plant("storage.v1", "storage.objects.get", answer, bucket="team")
        return run_steps.with_steps(StackPreview(stack="mine", runs=runs)).runs

    return look


def test_a_run_that_ends_has_its_last_step_and_the_next_one_begins_at_0(steps: Any) -> None:
    assert steps({"old-1/metrics.jsonl": OLD}, CHANGE) == (
        replace(CHANGE, before_step=120, steps=300, after_step=0),
    )


def test_a_run_that_is_in_the_bucket_already_goes_on(steps: Any) -> None:
    (run,) = steps({"old-1/metrics.jsonl": OLD, "new-2/metrics.jsonl": NEW}, CHANGE)
    assert run.after_step == 40


def test_a_finished_run_is_called_so(steps: Any) -> None:
    (run,) = steps({"old-1/metrics.jsonl": OLD, "old-1/COMPLETE.json": b"{}"}, CHANGE)
    assert run.finished


def test_a_run_before_its_first_step_is_at_0(steps: Any) -> None:
    (run,) = steps({}, CHANGE)
    assert (run.before_step, run.finished) == (0, False)


def test_where_the_bucket_may_not_be_read_the_preview_is_as_before(steps: Any, google: GoogleServer) -> None:
    """The pipelines' identity may not read objects."""
    google.fail("storage.v1", "storage.objects.get", REFUSED)
    assert steps({}, CHANGE) == (CHANGE,)


@pytest.mark.parametrize("error", [OperationError("no credentials"), CallError("storage", "no answer")])
def test_without_credentials_the_preview_is_as_before(
    error: Exception, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(run_steps, "clients_of", fail)
    assert steps({}, CHANGE) == (CHANGE,)


def test_a_preview_without_runs_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backend, "__init__", pytest.fail)
    assert run_steps.with_steps(StackPreview(stack="mine")) == StackPreview(stack="mine")
