"""How a run ends: its time over all tries, and bad input that is looked at once per submission."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import faulty
import pytest
from launches import local, torchrun
from outcomes import losses

from finetune.__main__ import main, make_parser
from finetune.settings.recipe import load_recipe
from finetune.storage.checkpoint import RunFolder
from finetune.storage.folder import Folder
from rehearsal.running_pods.tiny import make_recipe
from shared import time_limit
from shared.exit_codes import Exit
from shared.files import MetricsLog
from shared.remembered import SUBMISSION
from shared.time_limit import NO_LIMIT, Limits, TimeLimit

HOUR = 3600.0


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_hours_of_all_tries_count_together_and_those_between_them_do_not(tmp_path: Path) -> None:
    folder, clock = Folder(str(tmp_path)), Clock()
    for _ in range(2):
        limit = TimeLimit(folder, Limits(hours=4), counts=True, clock=clock)
        assert not limit.reached()
        clock.now += 100 * HOUR
        with limit.counted():
            clock.now += 2 * HOUR
    assert TimeLimit(folder, Limits(hours=4)).reached()
    assert not TimeLimit(folder, Limits(hours=5)).reached() and not TimeLimit(folder, NO_LIMIT).reached()


def test_a_try_that_is_killed_loses_no_more_than_the_time_since_the_last_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process writes by itself, while a step or a download takes long."""
    written = threading.Event()

    class Told(Folder):
        def write_text(self, name: str, text: str, *, patient: bool = True) -> None:
            super().write_text(name, text, patient=patient)
            written.set()

    monkeypatch.setattr(time_limit, "SECONDS_BETWEEN_WRITES", 0.01)
    folder, clock = Told(str(tmp_path)), Clock()
    with TimeLimit(folder, NO_LIMIT, counts=True, clock=clock).counted():
        clock.now += HOUR
        # The first write that is seen may have begun before.
        for _ in range(2):
            written.clear()
            assert written.wait(60)
        assert TimeLimit(folder, NO_LIMIT).seconds == HOUR


def test_only_the_process_that_counts_writes(tmp_path: Path) -> None:
    with TimeLimit(Folder(str(tmp_path)), Limits(hours=1)).counted():
        pass
    assert not list(tmp_path.iterdir())


def test_a_storage_that_fails_for_a_moment_ends_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = MetricsLog(Folder(str(tmp_path)), from_step=0, clock=lambda: 0)
    limit = TimeLimit(Folder(str(tmp_path)), Limits(hours=1), counts=True)
    # A file cannot take the place of a directory.
    for name in ("time.json", "metrics.jsonl"):
        (tmp_path / name).mkdir()
    with limit.counted():
        log.append({"step": 1})
    output = capsys.readouterr().out
    assert "time.json cannot be written" in output and "metrics.jsonl cannot be written" in output
    (tmp_path / "metrics.jsonl").rmdir()
    log.flush()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n'


def test_at_its_limit_a_run_saves_and_ends_and_with_a_higher_one_it_goes_on(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert train(recipe, tmp_path, "--max-run-hours=1e-9") == Exit.LIMIT_REACHED
    assert "hours and maxRunHours is 1e-09: with a higher one `pulumi up` goes on" in capsys.readouterr().err
    assert [path.name[:19] for path in (tmp_path / "mine").glob("checkpoint-*")] == ["checkpoint-00000001"]
    assert train(recipe, tmp_path, "--max-run-hours=1e-9") == Exit.LIMIT_REACHED
    assert len(losses(tmp_path / "mine")) == 1
    assert train(recipe, tmp_path, "--max-run-hours=9") == Exit.FINISHED
    assert len(losses(tmp_path / "mine")) == 8


def test_a_step_a_batch_or_a_checkpoint_in_time_is_no_idleness(tmp_path: Path) -> None:
    folder, clock = Folder(str(tmp_path)), Clock()
    limit = TimeLimit(folder, Limits(idle_minutes=60), counts=True, clock=clock)
    clock.now += 100 * HOUR
    with limit.counted():
        for _ in range(3):
            clock.now += 0.9 * HOUR
            assert not limit.reached()
            limit.progress()
        clock.now += HOUR
        assert limit.reached()
        # The checkpoint that follows is no reason to go on.
        limit.progress()
        assert limit.reached()
    assert "the run had no step for 60 minutes, which is idleMinutes" in limit.sentence


def test_an_idle_submission_does_not_start_again_and_another_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray starts workers again that have ended."""
    folder, clock = Folder(str(tmp_path)), Clock()
    monkeypatch.setenv(SUBMISSION, "first")
    limit = TimeLimit(folder, Limits(idle_minutes=60), counts=True, clock=clock)
    with limit.counted():
        clock.now += HOUR
        assert limit.reached()
    assert TimeLimit(folder, Limits(idle_minutes=60)).reached()
    monkeypatch.setenv(SUBMISSION, "second")
    assert not TimeLimit(folder, Limits(idle_minutes=60)).reached()


def test_limits_reach_the_processes_that_a_command_starts() -> None:
    limits = Limits(hours=1.5, idle_minutes=20)
    options = ["torchrun", "--recipe=r", "--processes=2", *limits.arguments()]
    assert Limits.of(make_parser().parse_args(options)) == limits
    assert NO_LIMIT.arguments() == []


def test_a_run_that_hangs_ends_in_all_its_processes_and_keeps_its_checkpoints(
    tiny: Path, tmp_path: Path, warm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process stands still, and the others wait for it."""
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, save_every_steps=1)
    arguments = [*local(recipe, tmp_path, "mine"), "--idle-minutes=60"]
    hang = {"arguments": arguments, "hang": {"rank": 1, "step": 3}}
    code, output = torchrun(warm, recipe, tmp_path, hang)
    assert code == Exit.LIMIT_REACHED, output
    assert "error: it hangs, and the run had no step for 60 minutes" in output
    kept = sorted(path.name[:19] for path in (tmp_path / "mine").glob("checkpoint-*"))
    assert kept[-1] == "checkpoint-00000002"
    monkeypatch.setenv(SUBMISSION, "another")
    code, output = torchrun(warm, recipe, tmp_path, {"arguments": arguments})
    assert code == Exit.FINISHED, output


def test_prometheus_sees_what_a_run_logs(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("METRICS_PORT", str(port))
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert train(recipe, tmp_path) == Exit.FINISHED
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    lines = [line.partition(" ") for line in page.splitlines() if not line.startswith("#")]
    shown = {name: float(value) for name, _, value in lines}
    last = json.loads((tmp_path / "mine" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["loss"] > 0 and last["seconds"] > 0
    assert shown == {f'training_{name}{{run="mine"}}': value for name, value in last.items()}


def test_a_run_without_its_port_trains(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        monkeypatch.setenv("METRICS_PORT", str(taken.getsockname()[1]))
        assert train(make_recipe(tmp_path / "recipe.yaml", tiny), tmp_path) == Exit.FINISHED
    assert "no metrics at port" in capsys.readouterr().out


def test_a_process_that_is_told_to_end_while_its_model_loads_ends_at_once(
    tiny: Path, tmp_path: Path, warm: str
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    arguments = ["local", f"--recipe={recipe}", f"--storage={tmp_path}", "--run=mine"]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"arguments": arguments, "terminate": {"rank": 0, "step": 0}}]))
    program = [sys.executable, warm, faulty.__file__, str(plan)]
    process = subprocess.run(program, capture_output=True, text=True, check=False)
    assert process.returncode == Exit.INTERRUPTED, process.stdout + process.stderr
    assert "run mine was stopped while it was loading: the same command goes on" in process.stdout
    assert not list((tmp_path / "mine").glob("checkpoint-*"))


def test_what_killed_writers_have_left_is_deleted_when_a_run_is_claimed(tmp_path: Path) -> None:
    """An hour later, since a writer on another node may be at work."""
    run = tmp_path / "mine"
    stale, fresh = [run / "run.json.1.part", run / "checkpoint-1" / "weights.2.part"], run / "run.json.3.part"
    stale[1].parent.mkdir(parents=True)
    for part in (*stale, fresh):
        part.touch()
    for part in stale:
        os.utime(part, (0, time.time() - 2 * HOUR))
    RunFolder(str(tmp_path), "mine").claim(load_recipe("gemma-3-1b-emoji"), 1)
    assert list(run.rglob("*.part")) == [fresh]


@pytest.fixture
def gated(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Trains a model that was gated at the first look. The licence has been accepted since."""
    from finetune.model import loading as model
    from shared.errors import InputError

    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    answers = [InputError("the model is gated: accept its licence")]

    def check_model(*_: object) -> None:
        if answers:
            raise answers.pop()

    monkeypatch.setattr(model, "check_model", check_model)
    assert train(recipe, tmp_path) == Exit.BAD_INPUT
    return lambda: train(recipe, tmp_path)


def test_bad_input_is_looked_at_once_for_all_tries_of_a_submission(
    gated: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert gated() == Exit.BAD_INPUT
    assert "error: the model is gated: accept its licence (an earlier try's" in capsys.readouterr().err


@pytest.mark.parametrize("platform", [SUBMISSION, "CLOUD_RUN_EXECUTION"])
def test_a_new_submission_looks_again(
    platform: str, gated: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Job's pods know its uid, those of Cloud Run their execution."""
    monkeypatch.delenv(SUBMISSION)
    monkeypatch.setenv(platform, "another")
    assert gated() == Exit.FINISHED


def test_a_run_of_another_recipe_is_not_told_of_bad_input(tiny: Path, tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny)
    assert train(recipe, tmp_path, f"--set=model.name={tiny}/absent") == Exit.BAD_INPUT
    before = (tmp_path / "mine" / "ended.json").read_text()
    assert "absent is not a directory" in json.loads(before)["reason"]
    assert train(recipe, tmp_path) == Exit.BAD_INPUT
    assert (tmp_path / "mine" / "ended.json").read_text() == before


def train(recipe: Path, store: Path, *options: str) -> int:
    return main(["local", f"--recipe={recipe}", f"--storage={store}", "--run=mine", *options])
