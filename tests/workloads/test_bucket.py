"""A run whose storage is a bucket, with the client of the real one: killed, refused, badly served."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, cloud_storage
from outcomes import losses, stopped_half_way

import finetune.__main__
from finetune.__main__ import main
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import MARKER, RunFolder
from finetune.storage.folder import Folder
from rehearsal.running_pods.tiny import make_recipe
from rehearsal.stand_ins.answers import HANG_UP
from rehearsal.stand_ins.bucket import Buckets, Fault
from rehearsal.stand_ins.loopback import Request
from shared.errors import PassingError
from shared.files import MetricsLog
from shared.patience import BUCKET_REMEDY, LIMIT


def command(recipe: Path, storage: str = "gs://bucket") -> list[str]:
    return ["local", f"--recipe={recipe}", f"--storage={storage}", "--run=mine"]


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps with dropout, and a checkpoint every two, of which two are kept."""
    more = {"accumulation_steps": 2, "packing": False, "result": "adapter"}
    return make_recipe(tmp_path_factory.mktemp("recipe") / "recipe.yaml", tiny, "gemma-3-1b-emoji", **more)


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run on a disk, from start to end."""
    store = tmp_path_factory.mktemp("undisturbed")
    assert main(command(recipe, str(store))) == 0
    return store / "mine"


@pytest.fixture(scope="module")
def killed(recipe: Path, warm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The run's directory after SIGKILL while the second checkpoint was uploaded."""
    with cloud_storage(tmp_path_factory.mktemp("killed")) as buckets, pytest.MonkeyPatch.context() as patch:
        program = [sys.executable, warm, str(finetune.__main__.__file__), *command(recipe)]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        serve = buckets.serve

        def kill(request: Request) -> None:
            if (
                request.command == "PUT"
                and "checkpoint-00000004" in request.path
                and "optimizer" in request.path
            ):
                process.kill()
                raise ConnectionAbortedError
            serve(request)

        patch.setattr(buckets, "serve", kill)
        output, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, output.decode()
        patch.undo()
        yield buckets.folder / "bucket/mine"


@pytest.fixture(scope="module")
def resumed(killed: Path, recipe: Path) -> Path:
    """The run's directory when the same command has gone on from there to the end."""
    newest = RunFolder("gs://bucket", "mine").newest_checkpoint()
    assert newest and newest.step == 2
    assert main(command(recipe)) == 0
    return killed


def test_a_run_killed_while_it_uploads_has_the_losses_of_an_undisturbed_one_on_a_disk(
    resumed: Path, undisturbed: Path
) -> None:
    assert losses(resumed) == pytest.approx(losses(undisturbed), abs=1e-5)


def test_the_newest_complete_checkpoints_stay_in_the_bucket(resumed: Path) -> None:
    complete = sorted(marker.parent.name[:19] for marker in resumed.glob(f"checkpoint-*/{MARKER}"))
    assert complete == ["checkpoint-00000004", "checkpoint-00000006"]
    assert len(list(resumed.glob("checkpoint-*"))) == 2


def test_a_finished_run_is_left_alone(
    resumed: Path, recipe: Path, trained: list[Recipe], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in resumed.rglob("*")}
    assert main(command(recipe)) == 0
    assert not trained
    assert "its adapter is in gs://bucket/mine/adapter" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in resumed.rglob("*")} == before


def test_a_bucket_that_does_not_exist_is_named_at_once(
    recipe: Path, buckets: Buckets, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(recipe, "gs://no-such-bucket")) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.startswith("error: storage gs://no-such-bucket/mine cannot be used: ")
    assert "The specified bucket does not exist." in error
    assert not clock.pauses


def test_rights_that_do_not_come_end_the_start_with_an_exit_code_to_try_again(
    recipe: Path, buckets: Buckets, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str | None] = []
    buckets.authorize = lambda _bucket, token: asked.append(token) or 403
    assert main(command(recipe)) == 1
    assert clock.now == LIMIT
    assert set(asked) == {"token"}
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.startswith("error: storage gs://bucket/mine: ")
    assert "given up after" in error
    assert not list(buckets.folder.glob("bucket/*"))


FAULTS = [Fault(status=503), Fault(status=429), Fault(status=HANG_UP), Fault(status=HANG_UP, effect=True)]


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("fault", FAULTS, ids=["503", "429", "cut", "lost"])
def test_an_upload_that_is_served_badly_ends_with_one_object_of_the_same_bytes(
    fault: Fault, method: str, buckets: Buckets, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "file").write_bytes(content)
    buckets.faults = [replace(fault, method=method, name="mine/file")]
    Folder("gs://bucket/mine").upload(tmp_path / "file", "file")
    assert not buckets.faults
    assert Folder("gs://bucket/mine").sizes() == {"file": len(content)}
    assert (buckets.folder / "bucket/mine/file").read_bytes() == content


@pytest.mark.usefixtures("impatient_client")
def test_a_bucket_that_refuses_for_longer_than_a_start_waits_for_one_answer_loses_nothing(
    buckets: Buckets,
) -> None:
    folder = Folder("gs://bucket/mine")
    buckets.faults = [Fault(status=503, times=3)]  # at least 3 seconds
    folder.write_text("file", "text")
    assert not buckets.faults
    assert (buckets.folder / "bucket/mine/file").read_text() == "text"


REQUESTS = {
    "read": lambda folder, file: folder.read_text("part/file"),
    "write": lambda folder, file: folder.write_text("part/file", "other"),
    "list": lambda folder, file: folder.sizes("part"),
    "upload": lambda folder, file: folder.upload(file, "part/new"),
    "download": lambda folder, file: folder.download("part/file", file),
    "delete": lambda folder, file: folder.delete("part"),
}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_bucket_that_refuses_access_for_a_minute_of_a_run_is_asked_again(
    request_: str, status: int, buckets: Buckets, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("content")
    folder = Folder("gs://bucket/mine")
    folder.write_text("part/file", "text")
    buckets.authorize = lambda _bucket, _token: status if clock.now < 60 else None
    REQUESTS[request_](folder, tmp_path / "file")
    assert 60 <= clock.now < 120


def test_a_bucket_that_refuses_access_for_good_ends_a_run_with_one_line_that_names_it(
    buckets: Buckets, clock: Clock
) -> None:
    folder = Folder("gs://bucket/mine")
    buckets.authorize = lambda _bucket, _token: 403
    with pytest.raises(PassingError, match=r"storage gs://bucket/mine: .*no access.*given up after") as end:
        folder.read_text("attempt.json")
    assert clock.now == LIMIT
    assert str(end.value).endswith(BUCKET_REMEDY)


@pytest.mark.parametrize("status", [503, 429, HANG_UP], ids=["503", "429", "cut"])
def test_a_bucket_that_is_out_of_order_for_good_ends_a_run_with_one_line_that_names_it(
    status: int, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finetune.storage.folder.RETRY_LIMIT", timedelta(milliseconds=1))
    buckets.faults = [Fault(status=status, times=1000)]
    with pytest.raises(PassingError, match=r"^storage gs://bucket/mine: .* goes on from the newest check"):
        Folder("gs://bucket/mine").read_text("attempt.json")


def test_a_run_that_gives_up_waits_no_second_time_and_its_last_line_says_what_to_do(
    recipe: Path, buckets: Buckets, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """It writes its time when it ends."""
    closed_at = list[float]()

    def authorize(*_: object) -> int | None:
        if not closed_at and list(buckets.folder.glob("bucket/mine/checkpoint-00000002*")):
            closed_at.append(clock.now)
        return 403 if closed_at else None

    buckets.authorize = authorize
    assert main(command(recipe)) == 1
    assert clock.now == closed_at[0] + LIMIT
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("error: storage gs://bucket/mine: ") and last.endswith(BUCKET_REMEDY)


def test_progress_waits_for_seconds_alone_where_a_checkpoint_waits_for_minutes(
    buckets: Buckets, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finetune.storage.folder.PROGRESS_RETRY_LIMIT", timedelta(milliseconds=1))
    log = MetricsLog(Folder("gs://bucket/mine"), from_step=0, clock=lambda: 0)
    buckets.faults = [Fault(status=503, times=2)]
    log.append({"step": 1})
    assert "metrics.jsonl cannot be written" in capsys.readouterr().out
    assert not (buckets.folder / "bucket/mine/metrics.jsonl").exists()


def test_progress_does_not_wait_for_a_bucket_that_refuses_access(
    buckets: Buckets, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is written again soon, and GPUs would wait for it."""
    log = MetricsLog(Folder("gs://bucket/mine"), from_step=0, clock=lambda: 0)
    buckets.authorize = lambda _bucket, _token: 403
    log.append({"step": 1})
    assert not clock.pauses
    assert "metrics.jsonl cannot be written" in capsys.readouterr().out
    buckets.authorize = lambda _bucket, _token: None
    log.flush()
    assert (buckets.folder / "bucket/mine/metrics.jsonl").read_text() == '{"step": 1}\n'


def test_a_local_file_that_cannot_be_read_is_no_trouble_of_the_bucket(
    buckets: Buckets, clock: Clock, tmp_path: Path
) -> None:
    with pytest.raises(IsADirectoryError):
        Folder("gs://bucket/mine").upload(tmp_path, "file")
    assert not clock.pauses


def test_a_disk_that_is_full_when_a_run_is_claimed_is_no_bad_input(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped_half_way(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(Folder, "write_text", lambda self, *_, **__: self.upload(recipe, "run.json"))
    assert main(command(recipe, str(tmp_path))) == 1
    assert "error: a disk is full; with more room" in capsys.readouterr().err


def test_a_minute_without_access_while_a_run_saves_costs_no_step(
    recipe: Path,
    undisturbed: Path,
    buckets: Buckets,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the first file of a checkpoint on: the role was replaced by an `up`."""
    serve, closed_at = buckets.serve, list[float]()

    def close(request: Request) -> None:
        if "checkpoint-00000002" in request.path and not closed_at:
            closed_at.append(clock.now)
        serve(request)

    monkeypatch.setattr(buckets, "serve", close)
    buckets.authorize = lambda *_: 403 if closed_at and clock.now < closed_at[0] + 60 else None
    assert main(command(recipe)) == 0
    assert closed_at and clock.pauses
    assert re.findall(r"from step \d+", capsys.readouterr().out) == ["from step 0"]
    assert losses(buckets.folder / "bucket/mine") == pytest.approx(losses(undisturbed), abs=1e-5)


def test_two_writers_of_one_file_on_a_shared_disk_both_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes that claim one run: the second writes while the first does."""
    contents = {name: tmp_path / name for name in ("first", "second")}
    for name, source in contents.items():
        source.write_text(name)
    copy, waiting = shutil.copyfileobj, ["second"]

    def copy_after_the_other(*arguments: Any) -> None:
        while waiting:
            Folder(f"{tmp_path}/run").upload(contents[waiting.pop()], "run.json")
        copy(*arguments)

    monkeypatch.setattr("shutil.copyfileobj", copy_after_the_other)
    Folder(f"{tmp_path}/run").upload(contents["first"], "run.json")
    assert Folder(f"{tmp_path}/run").sizes() == {"run.json": len("first")}
    assert Folder(f"{tmp_path}/run").read_text("run.json") == "first"


def test_an_exception_in_an_upload_to_a_bucket_publishes_nothing(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    stopped_half_way(monkeypatch)
    folder = Folder("gs://bucket/mine")
    folder.write_text("other", "text")
    with pytest.raises(KeyboardInterrupt):
        folder.upload(tmp_path / "file", "file")
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("other", "\ud83d")
    assert folder.sizes() == {"other": 4}


@pytest.mark.parametrize("fault", FAULTS, ids=["503", "429", "cut", "lost"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_is_served_badly_is_read_and_deleted_all_the_same(
    method: str, fault: Fault, buckets: Buckets, tmp_path: Path
) -> None:
    folder = Folder("gs://bucket/mine")
    folder.write_text("part/file", "text")
    buckets.faults = [replace(fault, method=method, name="mine/part/file")]
    if method == "GET":
        folder.download("part/file", tmp_path / "file")
        assert (tmp_path / "file").read_text() == "text"
    else:
        folder.delete("part")
        assert not list(buckets.folder.glob("bucket/*"))
    assert not buckets.faults
