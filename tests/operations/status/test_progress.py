"""How far the training is, from the file that it writes."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from operations.status.report import Report
from tests.operations.status.samples import METRICS, lines_of


def test_the_training_shows_step_loss_speed_and_time_to_go(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of(*METRICS))
    progress = look().progress
    assert progress
    now = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    words = "step 2 of 40, loss 2.0000, evaluation loss 2.2500, 1000 tokens/s, 1 h 05 min to go"
    assert progress.line(now) == f"{words}, written 2 min ago"
    assert (progress.losses, progress.evaluations) == (((1, 2.5), (2, 2.0)), ((2, 2.25),))


@pytest.mark.parametrize(
    ("complete", "end"),
    [
        (b'{"steps": 2, "not_good": null}', "finished"),
        (b'{"steps": 2}', "finished"),
        (b'{"not_good": "exact 0 is below 1"}', "finished, but not good: exact 0 is below 1"),
    ],
)
def test_a_finished_training_says_so_and_whether_it_is_good(
    complete: bytes, end: str, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of(*METRICS), complete)
    progress = look().progress
    assert progress
    assert progress.line(datetime.now(UTC)).endswith(f"1000 tokens/s, {end}")


def test_a_marker_that_is_none_is_said(look: Callable[[], Report], metrics: Callable[..., None]) -> None:
    metrics(lines_of(*METRICS), b'{"steps"')
    assert "COMPLETE.json is not what the training writes" in look().unseen[0]


def test_the_newest_answers_to_held_out_rows_are_shown(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    answers = [{"step": step, "execution_accuracy": step / 4, "judged": 90} for step in (1, 2)]
    metrics(lines_of(*METRICS, *answers))
    progress = look().progress
    assert progress
    words = "evaluation loss 2.2500, execution accuracy 0.5, judged 90, 1000 tokens/s"
    assert words in progress.line(datetime.now(UTC))


def test_a_preference_shows_the_share_of_pairs_that_it_has_learned(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of(*METRICS, METRICS[-1] | {"reward_accuracy": 0.75, "reward_margin": 0.5}))
    progress = look().progress
    assert progress and "loss 2.0000, preferred 0.750, " in progress.line(datetime.now(UTC))


def test_answers_are_shown_beside_those_of_the_untrained_model(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    before, after = ({"step": step, "overlap": share, "judged": 90} for step, share in ((0, 0.125), (2, 0.5)))
    metrics(lines_of(before))
    progress = look().progress
    assert progress and "overlap 0.125 before the training, judged 90" in progress.line(datetime.now(UTC))
    metrics(lines_of(before, *METRICS, after))
    progress = look().progress
    words = "overlap 0.5 (before the training 0.125, +0.375), judged 90"
    assert progress and words in progress.line(datetime.now(UTC))


def test_the_loss_on_held_out_rows_is_shown_beside_that_of_the_untrained_model(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    before = {"step": 0, "eval_loss": 4.5}
    metrics(lines_of(before))
    progress = look().progress
    assert progress and "evaluation loss 4.5000 before the training" in progress.line(datetime.now(UTC))
    metrics(lines_of(before, *METRICS))
    progress = look().progress
    words = "evaluation loss 2.2500 (before the training 4.5000)"
    assert progress and words in progress.line(datetime.now(UTC))


@pytest.mark.parametrize(
    ("record", "accelerator_hours"),
    [
        (b'{"workers": 16}', "32.0"),
        (b'{"workers": 4, "topology": "4x4"}', "32.0"),
        (b'{"workers": 8, "topology": "4x4", "slices": 2}', "64.0"),
        (b"{}", "2.0"),
    ],
)
def test_the_goodput_is_the_share_of_the_time_in_steps_that_are_kept(
    record: bytes, accelerator_hours: str, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    steps = [{"step": step, "loss": 1.0, "seconds": 1800} for step in (1, 2, 3)]
    metrics(lines_of(*steps), time=b'{"seconds": 7200.0}', run=record)
    progress = look().progress
    assert progress and progress.goodput
    assert progress.goodput.line == (
        f"goodput 75%: of 2.00 hours, {accelerator_hours} accelerator-hours, "
        "1.50 hours are steps that are kept"
    )


def test_a_run_of_an_earlier_version_has_no_goodput(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of({"step": 1, "loss": 1.0}), time=b'{"seconds": 7200.0}')
    progress = look().progress
    assert progress and progress.goodput is None


@pytest.mark.parametrize(
    ("time", "run"),
    [
        (b'{"seconds": "x"}', b"{}"),
        (b'{"seconds": [1]}', b"{}"),
        (b'{"seconds": 1e999}', b"{}"),
        (b'{"seconds": 7200}', b'{"workers": "x"}'),
        (b'{"seconds": 7200}', b'{"topology": "4xb"}'),
        (b'{"seconds": 7200}', b'{"topology": "4x4", "slices": 1000000}'),
        (b'{"seconds": 7200}', b"[" * 100_000),
    ],
)
def test_a_record_that_no_training_writes_is_told_in_one_line(
    time: bytes, run: bytes, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(lines_of({"step": 1, "loss": 1.0, "seconds": 1}), time=time, run=run)
    (line,) = look().unseen
    assert "is not what the training writes" in line and "\n" not in line


def test_a_damaged_record_is_named(look: Callable[[], Report], metrics: Callable[..., None]) -> None:
    metrics(lines_of({"step": 1, "loss": 1.0, "seconds": 1}), time=b"{")
    assert "time.json is not what the training writes" in look().unseen[0]


@pytest.mark.parametrize(
    "line",
    [b"[]", b"{}", b'{"step": 1e999}', b'{"step": NaN}', b'{"step": 1%s}' % (b"0" * 400), b"[" * 100_000],
    ids=["list", "no step", "infinite", "not a number", "huge", "deep"],
)
def test_a_line_that_no_training_writes_is_named(
    line: bytes, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(b'{"step": 1, "loss": 2.5}\n' + line)
    (unseen,) = look().unseen
    assert "line 2 is not what the training writes" in unseen


def test_a_time_to_go_without_end_is_left_out(
    look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(b'{"step": 1, "loss": 2.5, "seconds_left": 1e999}')
    progress = look().progress
    assert progress
    assert progress.line(datetime.now(UTC)).startswith("step 1, loss 2.5000, written ")


@pytest.mark.parametrize("content", [None, b"", b"\n"])
def test_a_training_that_has_logged_nothing_is_no_problem(
    content: bytes | None, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    if content is not None:
        metrics(content)
    report = look()
    assert (report.progress, report.unseen) == (None, ())


@pytest.mark.parametrize("content", [b"<html>", b'{"loss": 1}\n', b"[1]\n", b'{"step": 1, "loss"', b"\xff\n"])
def test_metrics_that_are_none_are_said(
    content: bytes, look: Callable[[], Report], metrics: Callable[..., None]
) -> None:
    metrics(content)
    report = look()
    assert report.progress is None
    assert "line 1 is not what the training writes" in report.unseen[0]
