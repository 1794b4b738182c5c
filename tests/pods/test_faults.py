"""Trouble at the platform's edge, on a4-accelerate: what passes costs nothing, what does not ends at once."""

import os
import re
import signal
from collections.abc import Callable, Mapping

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.running_pods.stage import Stage
from rehearsal.stand_ins.bucket import Fault
from tests.control_plane.test_status import look
from tests.pods.conftest import Play
from tests.pods.test_a4_accelerate import COMPLETE

MODEL = "google/gemma-3-12b-it"
BUSY = 3
# Refusals of a bucket, after which Google's client pauses for 1, 2, 4 ... s: a minute in all. The API server
# is gone for the first of them, some 20 s.
MINUTE, TWENTY_SECONDS = 8, 5


def signal_api_server(stage: Stage, number: signal.Signals) -> None:
    (file,) = stage.plane.kubeconfig.parent.rglob("kube-apiserver.pid")
    os.kill(int(file.read_text()), number)


def busy(times: int) -> Callable[[str], tuple[int, Mapping[str, str]] | None]:
    """The answers of a Hub that has had too many requests."""
    answers = iter([(429, {"Retry-After": "1"})] * times)
    return lambda _path: next(answers, None)


@pytest.mark.slow
def test_hub_bucket_and_api_server_fail_for_a_while_and_nothing_is_lost(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = play("a4-accelerate")
    monkeypatch.setattr(stage.around.hub, "refusal", busy(BUSY))
    stage.stack.up()
    stage.waits_for("a checkpoint", stage.saved)
    assert stage.kubelet.log(stage.pods()[0]).count("429 Too Many Requests; again in 1 s") == BUSY

    bucket = Fault(status=503, times=MINUTE)
    stage.around.buckets.faults.append(bucket)
    signal_api_server(stage, signal.SIGSTOP)
    try:
        stage.waits_for("refusals", lambda: bucket.times <= MINUTE - TWENTY_SECONDS)
    finally:
        signal_api_server(stage, signal.SIGCONT)
    stage.waits_for("all refusals", lambda: not bucket.times)

    assert stage.waits_for("the end of the Job", stage.outcome) == COMPLETE
    assert len(stage.pods()) == 1
    assert (stage.run() / "COMPLETE.json").exists()
    steps = list(stage.losses())
    assert steps == list(range(1, len(steps) + 1))


def forget_token(stage: Stage, _patch: pytest.MonkeyPatch) -> None:
    stage.around.hub.tokens = {}


def gate(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stage.around.hub.model(MODEL), "gated", True)


@pytest.mark.parametrize(
    ("refuse", "why", "in_plain_words"),
    [
        (forget_token, "does not know the token in HF_TOKEN", "Hugging Face does not know the token"),
        (gate, f"https://huggingface.co/{MODEL}", "the model is gated: .*"),
    ],
)
def test_a_hub_that_refuses_ends_the_job_at_once_and_up_and_status_say_why(
    play: Play,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[[Stage, pytest.MonkeyPatch], None],
    why: str,
    in_plain_words: str,
) -> None:
    stage = play("a4-accelerate", waitForTraining="true")
    refuse(stage, monkeypatch)
    with pytest.raises(RehearsalError, match=r"failed with exit code 2 matching FailJob rule") as failure:
        stage.stack.up()
    assert why in str(failure.value)
    report = look(stage.stack, stage.plane)
    assert report.unseen == ()
    (pod,) = [line for line in report.lines if line.kind == "pod"]
    assert pod.why
    assert re.fullmatch(in_plain_words, pod.why.text)
