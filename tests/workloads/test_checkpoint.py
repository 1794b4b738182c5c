"""A run's directory: what counts as complete. No library of training is imported."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from outcomes import stopped_half_way

from finetune.run.metrics import Pace, Progress, last_evaluation
from finetune.settings.recipe import load_recipe
from finetune.storage.checkpoint import MARKER, RunFolder, adapter_in, checkpoint_name
from finetune.storage.folder import Folder
from shared.errors import InputError
from shared.files import MetricsLog
from shared.remembered import SUBMISSION

WEIGHTS = (992).to_bytes(8, "little") + b"{}".ljust(992)  # safetensors without a tensor


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "store"), "mine")


def save(run: RunFolder, tmp_path: Path, step: int) -> Path:
    """Save a checkpoint of two files, and return its directory."""
    source = tmp_path / f"local-{step}"
    source.mkdir(exist_ok=True)
    (source / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (source / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    name = checkpoint_name(step)
    run.save_checkpoint(source, name)
    return Path(run.folder.uri, name)


def newest_step(run: RunFolder) -> int | None:
    newest = run.newest_checkpoint()
    return newest.step if newest else None


def test_the_newest_checkpoint_is_the_one_of_the_highest_step(run: RunFolder, tmp_path: Path) -> None:
    assert newest_step(run) is None
    for step in (20, 100, 40):
        save(run, tmp_path, step)
    assert newest_step(run) == 100


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (MARKER, None),
        (MARKER, b'{"files": {'),
        ("adapter_model.safetensors", bytes(999)),
        ("trainer_state.json", None),
    ],
)
def test_a_checkpoint_with_a_file_missing_or_cut_short_is_passed_over(
    file: str, content: bytes | None, run: RunFolder, tmp_path: Path
) -> None:
    save(run, tmp_path, 20)
    damaged = save(run, tmp_path, 40) / file
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    assert newest_step(run) == 20


def test_an_upload_that_fails_half_way_leaves_no_complete_checkpoint(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = Folder.upload

    def fail_at_the_second_file(folder: Folder, source: Path, name: str) -> None:
        if source.name == "trainer_state.json":
            raise OSError("connection lost")
        upload(folder, source, name)

    save(run, tmp_path, 20)
    monkeypatch.setattr(Folder, "upload", fail_at_the_second_file)
    with pytest.raises(OSError, match="connection lost"):
        save(run, tmp_path, 40)
    assert newest_step(run) == 20


def test_a_checkpoint_of_several_processes_is_complete_when_all_have_uploaded_their_part(
    run: RunFolder, tmp_path: Path
) -> None:
    name, files = checkpoint_name(40), {}
    for rank in (0, 1):
        part = tmp_path / f"rank-{rank}" / "optimizer_0"
        part.mkdir(parents=True)
        (part / f"__{rank}_0.distcp").write_bytes(bytes(10))
        files |= run.upload_to_checkpoint(part.parent, name)
        assert newest_step(run) is None
    run.complete_checkpoint(name, files)
    assert newest_step(run) == 40
    newest = run.newest_checkpoint()
    assert newest
    fetched = run.fetch_checkpoint(newest, tmp_path / "node") / "optimizer_0"
    assert {path.name for path in fetched.iterdir()} == {"__0_0.distcp", "__1_0.distcp"}


def damage(checkpoint: Path) -> None:
    """Change a byte of its weights."""
    weights = checkpoint / "adapter_model.safetensors"
    weights.write_bytes(b"x" + weights.read_bytes()[1:])


def test_a_checkpoint_with_other_bytes_of_the_same_size_is_told_and_the_next_older_is_taken(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(run, tmp_path, 20)
    damaged = save(run, tmp_path, 40)
    damage(damaged)
    assert newest_step(run) == 40
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.step == 20
    message = "is damaged: adapter_model.safetensors has other bytes than were saved; the run goes on from"
    assert f"{damaged.name} {message} {fetched.name}\n" in capsys.readouterr().out
    assert not list((tmp_path / "node").glob("*00000040*"))
    # It is not what is kept in place of one that is whole.
    assert newest_step(run) == 20
    save(run, tmp_path, 30)
    run.prune_checkpoints(1)
    assert newest_step(run) == 30


def test_a_run_of_which_no_checkpoint_is_as_it_was_saved_says_what_to_do(
    run: RunFolder, tmp_path: Path
) -> None:
    saved = [save(run, tmp_path, step) for step in (20, 40)]
    for checkpoint in saved:
        damage(checkpoint)
    with pytest.raises(InputError, match="no other is whole: restore one, or give the run another --run"):
        run.fetch_newest(tmp_path / "node")
    assert newest_step(run) == 40


def test_a_checkpoint_of_a_version_without_checksums_is_taken(run: RunFolder, tmp_path: Path) -> None:
    marker = save(run, tmp_path, 20) / MARKER
    files = json.loads(marker.read_text())["files"]
    marker.write_text(json.dumps({"files": {name: saved["size"] for name, saved in files.items()}}))
    fetched = run.fetch_newest(tmp_path / "node")
    assert fetched and fetched.step == 20


def test_what_a_killed_upload_has_left_goes_when_a_later_checkpoint_is_complete(
    run: RunFolder, tmp_path: Path
) -> None:
    rest, later = save(run, tmp_path, 20), save(run, tmp_path, 60)
    for cut in (rest, later):
        (cut / MARKER).unlink()
    run.prune_checkpoints(2)
    assert rest.exists()
    save(run, tmp_path, 40)
    run.prune_checkpoints(2)
    assert not rest.exists() and later.exists()


def test_a_half_record_of_a_run_is_one_line_with_the_remedy(run: RunFolder) -> None:
    recipe = load_recipe("gemma-3-4b-vision", DIRECTORIES)
    run.claim(recipe, 16)
    record = Path(run.folder.uri, "run.json")
    record.write_text(record.read_text()[:100])
    with pytest.raises(
        InputError, match=r"^run\.json in the run's folder is damaged: restore it, or delete it"
    ):
        run.claim(recipe, 16)
    record.unlink()
    assert run.claim(recipe, 16) is False


def test_half_a_line_of_metrics_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    MetricsLog(Folder(str(tmp_path)), 2).flush()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 2.5}\n'
    assert "metrics.jsonl has 1 lines that are not whole" in capsys.readouterr().out


def test_a_run_has_one_writer_the_newest_and_the_other_publishes_nothing(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.writer.begin()
    kept = save(run, tmp_path, 20)
    monkeypatch.setenv(SUBMISSION, "another")
    newer = RunFolder(run.storage, run.name)
    newer.writer.begin()
    before = run.folder.sizes()
    with pytest.raises(InputError, match=r"run mine goes on at .*, which started it at 20.*: this start"):
        save(run, tmp_path, 40)
    with pytest.raises(InputError, match="publishes nothing more"):
        run.upload_result("adapter", adapter_in(kept))
    with pytest.raises(InputError, match="publishes nothing more"):
        run.finish({}, {})
    assert newest_step(run) == 20
    assert not [name for name in run.folder.sizes().keys() - before.keys() if name.startswith("adapter")]
    save(newer, tmp_path, 30)
    newer.finish({"adapter": newer.upload_result("adapter", adapter_in(kept))}, {})
    assert newer.finished()


def test_an_exception_in_an_upload_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    folder = Folder(str(tmp_path / "store"))
    stopped_half_way(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        folder.upload(tmp_path / "file", "file")
    with pytest.raises(UnicodeEncodeError):
        folder.write_text("text", "\ud83d")
    assert folder.sizes() == {}


def test_a_second_attempt_at_a_step_does_not_touch_the_first(run: RunFolder, tmp_path: Path) -> None:
    assert save(run, tmp_path, 20) != save(run, tmp_path, 20)


def test_only_the_newest_checkpoints_are_kept(run: RunFolder, tmp_path: Path) -> None:
    saved = [save(run, tmp_path, step) for step in (20, 40, 60)]
    run.prune_checkpoints(2)
    assert [path.exists() for path in saved] == [False, True, True]


def test_a_checkpoint_comes_back_as_it_was(run: RunFolder, tmp_path: Path) -> None:
    save(run, tmp_path, 20)
    newest = run.newest_checkpoint()
    assert newest
    fetched = run.fetch_checkpoint(newest, tmp_path / "node")
    assert json.loads((fetched / "trainer_state.json").read_text()) == {"global_step": 20}
    assert (fetched / "adapter_model.safetensors").read_bytes() == WEIGHTS


# Nothing of a Hub is needed to claim a run of these.
DIRECTORIES = ["model.name=/model", "data.name=/data"]


def test_a_run_is_not_continued_with_another_recipe_or_number_of_workers(
    run: RunFolder, tmp_path: Path
) -> None:
    recipe = load_recipe("gemma-3-4b-vision", DIRECTORIES)
    assert run.claim(recipe, 16) is False
    assert run.claim(recipe, 16) is False
    with pytest.raises(InputError, match=r"with another workers; it had 16, and the setting resume: resize"):
        run.claim(recipe, 8)
    path = Path(run.folder.uri, "run.json")
    path.write_text(path.read_text().replace('"epochs": 3', '"epochs": 2'))
    with pytest.raises(InputError, match=r"another training\.epochs;"):
        run.claim(recipe, 16)


def test_a_run_of_a_version_that_knew_fewer_settings_is_continued(run: RunFolder) -> None:
    recipe = load_recipe("gemma-3-4b-vision", DIRECTORIES)
    run.claim(recipe, 16)
    path = Path(run.folder.uri, "run.json")
    recorded = json.loads(path.read_text())
    for section, key in (("training", "sharding"), ("training", "result"), ("data", "rows")):
        del recorded["recipe"][section][key]
    path.write_text(json.dumps(recorded))
    assert run.claim(recipe, 16) is False
    recorded["recipe"]["training"]["seed"] = 7
    path.write_text(json.dumps(recorded))
    with pytest.raises(InputError, match=r"another training\.seed;"):
        run.claim(recipe, 16)


def claim_again(
    run: RunFolder, change: Callable[[dict[str, str]], object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Claims a run whose record has other versions by now."""
    recipe = load_recipe("gemma-3-4b-vision", DIRECTORIES)
    run.claim(recipe, 16)
    path = Path(run.folder.uri, "run.json")
    recorded = json.loads(path.read_text())
    path.write_text(json.dumps({**recorded, "versions": change(recorded["versions"])}))
    capsys.readouterr()
    assert run.claim(recipe, 16) is False


def test_a_run_goes_on_with_other_code_and_libraries_and_says_which(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    claim_again(
        run, lambda versions: {**versions, "finetune/run/training.py": "another", "torch": "2.0.0"}, capsys
    )
    line = capsys.readouterr().out
    assert re.fullmatch(
        r"run mine in \S+ goes on with another finetune/run/training\.py, torch \(2\.0\.0, now \S+\) than it "
        r"began with\n",
        line,
    )


def test_a_run_whose_record_has_no_versions_goes_on_without_a_word(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    claim_again(run, lambda _: None, capsys)
    assert not capsys.readouterr().out


def test_a_run_goes_on_with_other_periods_and_questions(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    run.claim(load_recipe("gemma-3-1b-emoji", DIRECTORIES), 1)
    changes = ["training.save_every_steps=5", "evaluation.max_new_tokens=9"]
    assert run.claim(load_recipe("gemma-3-1b-emoji", [*DIRECTORIES, *changes]), 1) is False
    output = capsys.readouterr().out
    assert "another evaluation.max_new_tokens, training.save_every_steps than it began with" in output


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b", "x" * 64])
def test_a_run_name_that_is_no_directory_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--run must be"):
        RunFolder(str(tmp_path), name)


def test_a_storage_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="--storage must be gs://"):
        RunFolder("s3://bucket", "mine")


def progress(step: int) -> Progress:
    values = (
        "epoch",
        "loss",
        "learning_rate",
        "grad_norm",
        "token_accuracy",
        "tokens_per_second",
        "seconds",
        "seconds_left",
    )
    return Progress(step=step, steps=9, **dict.fromkeys(values, 0.5))


def test_metrics_of_steps_that_are_trained_again_appear_once(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    first = MetricsLog(folder, 0)
    for step in (1, 2, 3):
        first.append(asdict(progress(step)))
    first.flush()
    second = MetricsLog(folder, 2)
    second.append(asdict(progress(3)))
    second.flush()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_metrics_are_readable_while_the_run_goes_on_but_not_written_every_moment(tmp_path: Path) -> None:
    now = iter([10.0, 10.0, 10.4, 11.2, 11.2])
    log = MetricsLog(Folder(str(tmp_path)), 0, clock=lambda: next(now))
    written = []
    for step in (1, 2, 3):
        log.append(asdict(progress(step)))
        written.append(len((tmp_path / "metrics.jsonl").read_text().splitlines()))
    assert written == [1, 1, 3]


def test_an_evaluation_is_a_line_of_its_own_among_the_metrics(tmp_path: Path) -> None:
    history = [
        {"step": 2, "eval_loss": 2.0, "eval_mean_token_accuracy": 0.25},
        {"step": 4, "eval_loss": 1.5, "eval_mean_token_accuracy": 0.5},
        {"step": 4, "loss": 1.0},
    ]
    evaluation = last_evaluation(history)
    assert evaluation
    assert evaluation.line() == "step 4 evaluation loss 1.5000 accuracy 0.500"
    log = MetricsLog(Folder(str(tmp_path)), 0)
    log.append(asdict(progress(4)))
    log.append(asdict(evaluation))
    log.flush()
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[1]) == {
        "step": 4,
        "eval_loss": 1.5,
        "eval_token_accuracy": 0.5,
    }
    assert last_evaluation(history[2:]) is None


def test_the_speed_leaves_out_the_time_of_an_evaluation() -> None:
    now = iter([100.0, 110.0, 150.0])
    pace = Pace(step=0, clock=lambda: next(now))
    logs = {"loss": 1.5, "learning_rate": 2e-4, "grad_norm": 0.7, "mean_token_accuracy": 0.5}
    assert pace.measure(1, 9, 0.1, {**logs, "num_tokens": 1000}).tokens_per_second == 100
    pace.leave_out(30.0)
    assert pace.measure(2, 9, 0.2, {**logs, "num_tokens": 2000}).tokens_per_second == 100


def test_the_progress_line_tells_speed_and_time_left_from_this_process_alone() -> None:
    now = iter([100.0, 110.0, 130.0])
    pace = Pace(step=20, clock=lambda: next(now))
    logs = {"loss": 1.5, "learning_rate": 2e-4, "grad_norm": 0.7, "mean_token_accuracy": 0.5}
    assert pace.measure(30, 66, 1.5, {**logs, "num_tokens": 5000}).tokens_per_second == 500
    line = pace.measure(40, 66, 1.75, {**logs, "num_tokens": 6000}).line()
    assert line == (
        "step 40/66 epoch 1.75 loss 1.5000 lr 2.00e-04 grad_norm 0.700 accuracy 0.500 tokens/s 50 left 0:39"
    )
