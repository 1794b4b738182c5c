"""The command line: bad input is rejected before Ray starts, and a dry run prints the plan."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import make_recipe

from maxtext_driver.__main__ import main
from maxtext_driver.recipe import load_recipe
from maxtext_driver.run_folder import Placement, RunFolder
from shared.errors import InputError
from shared.patience import BUCKET_REMEDY


def run(output: Path, *more: str, name: str = "mine") -> int:
    return main(["--recipe", "llama3-8b", "--output", str(output), "--run", name, "--workers", "4", *more])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--topology", "4"], "--topology must be two or three numbers of chips like 4x4, not '4'"),
        (["--set", "run_name=a"], "run_name is set by the driver"),
        (["--set", "num_slices=2"], "num_slices is set by the driver"),
        (["--slices", "2"], "--slices 2 needs --topology, the shape of each slice"),
        (["--set", "steps"], "'steps' must be KEY=VALUE"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    tmp_path: Path, more: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *more) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_a_bucket_that_is_not_mounted_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "data") == 2
    assert "is not a directory; mount the bucket there" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_the_folder_of_a_stack_is_created_in_a_bucket_and_never_without_one(tmp_path: Path) -> None:
    run_folder = RunFolder(tmp_path, "mine", "my-stack")
    assert run_folder.path == tmp_path / "my-stack" / "mine"
    assert run_folder.output.is_dir()
    # A second start of the run, and the workers, which get the whole path.
    assert RunFolder(tmp_path, "mine", "my-stack").path == run_folder.path
    assert RunFolder(run_folder.output, "mine").path == run_folder.path
    with pytest.raises(InputError, match="is not a directory; mount the bucket there"):
        RunFolder(tmp_path / "data", "mine", "my-stack")
    assert not (tmp_path / "data").exists()


class Clock:
    """Seconds that pass in pauses. `at` has the actions after some of them, by number."""

    def __init__(self) -> None:
        self.pauses, self.at = list[float](), dict[int, Callable[[], None]]()

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at.get(len(self.pauses), lambda: None)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of a start."""
    from shared import patience

    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr("maxtext_driver.run_folder.RETRY_BUDGET", patience.RetryBudget())
    monkeypatch.setattr("maxtext_driver.__main__.dry_run", lambda _: 0)
    return clock


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A run's record that cannot be read, with the error of a mounted bucket that answers with 503."""
    record = tmp_path / "mine" / "run.json"
    record.parent.mkdir()
    record.symlink_to("/proc/self/mem")
    return record


def test_a_bucket_that_answers_after_a_while_is_waited_for(
    tmp_path: Path, broken: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    (broken.parent / "checkpoints" / str(load_recipe("llama3-8b").steps - 1)).mkdir(parents=True)
    clock.at[3] = broken.unlink
    assert run(tmp_path) == 0
    assert clock.pauses == [1, 2, 4]
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"bucket at {tmp_path}: [Errno 5] ")
    assert last.startswith("run mine is finished already")


def test_a_bucket_that_goes_on_failing_ends_the_start_with_an_exit_code_to_try_again(
    tmp_path: Path, broken: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 1
    assert clock.monotonic() == 480
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: bucket at {tmp_path}: [Errno 5] ")
    assert "given up after" in error and error.endswith(BUCKET_REMEDY)


def test_a_file_in_the_place_of_the_run_is_bad_input(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "mine").touch()
    assert run(tmp_path) == 2
    assert not clock.pauses


def test_two_hosts_that_write_one_file_at_once_both_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins and ends while the first writes."""
    folder = RunFolder(tmp_path, "mine")
    folder.path.mkdir()
    write, waiting = Path.write_text, ["second"]

    def write_before_the_other(path: Path, text: str) -> None:
        write(path, text)
        while waiting:
            folder.write_text("run.json", waiting.pop())

    monkeypatch.setattr(Path, "write_text", write_before_the_other)
    folder.write_text("run.json", "first")
    assert folder.read_text("run.json") == "first"
    assert [path.name for path in folder.path.iterdir()] == ["run.json"]


def test_what_killed_writers_have_left_is_deleted_when_a_run_is_claimed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "mine")
    folder.path.mkdir()
    for name in ("run.json.1.part", "run.json.2.part"):
        (folder.path / name).touch()
    os.utime(folder.path / "run.json.1.part", (0, time.time() - 7200))
    folder.claim(load_recipe("llama3-8b"), Placement(workers=4))
    assert [path.name for path in folder.path.glob("*.part")] == ["run.json.2.part"]


def test_a_run_goes_on_with_other_flags_of_the_compiler_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, placement = RunFolder(tmp_path, "mine"), Placement(workers=4, topology="4x4")
    recipe = load_recipe("llama3-8b")
    folder.claim(recipe, placement)
    folder.claim(recipe.model_copy(update={"libtpu_flags": ("--a=1",)}), placement)
    assert "run mine in" in (output := capsys.readouterr().out)
    assert "goes on with another libtpu_flags than it began with" in output


def test_a_run_name_that_is_a_path_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, name="../other") == 2
    assert "--run must be at most 63 letters" in capsys.readouterr().err


def test_help_needs_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys, maxtext_driver.__main__ as command\n"
        "try: command.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'jax', 'maxtext', 'ray', 'numpy'} & {name.split('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_setting_that_maxtext_does_not_know_ends_the_command_with_one_line_and_exit_code_2(
    tmp_path: Path,
) -> None:
    """The command as a user types it. It starts no Ray and records no run."""
    recipe = make_recipe(tmp_path / "recipe.yaml", remat_polizy="full")
    options = ["--recipe", str(recipe), "--output", str(tmp_path), "--run", "mine", "--workers", "2"]
    result = subprocess.run(
        [sys.executable, "-m", "maxtext_driver", *options], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "has no setting remat_polizy (did you mean remat_policy?)" in errors[0]
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "mine").exists()


def test_a_run_that_was_started_with_another_recipe_or_slice_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "mine")
    folder.claim(load_recipe("llama3-8b"), Placement(workers=4, topology="4x4"))
    folder.claim(load_recipe("llama3-8b"), Placement(workers=4, topology="4x4"))
    with pytest.raises(InputError, match="started with another steps;"):
        folder.claim(load_recipe("llama3-8b", ["steps=7"]), Placement(workers=4, topology="4x4"))
    with pytest.raises(InputError, match="started with another topology, workers;"):
        folder.claim(load_recipe("llama3-8b"), Placement(workers=8, topology="4x8"))
    with pytest.raises(InputError, match="started with another slices, workers;"):
        folder.claim(load_recipe("llama3-8b"), Placement(workers=8, topology="4x4", slices=2))


def test_a_record_of_an_earlier_version_is_of_one_slice(tmp_path: Path) -> None:
    folder, one = RunFolder(tmp_path, "mine"), Placement(workers=4, topology="4x4")
    folder.claim(load_recipe("llama3-8b"), one)
    record = json.loads((folder.path / "run.json").read_text())
    assert record.pop("slices") == 1
    folder.write_text("run.json", json.dumps(record))
    folder.claim(load_recipe("llama3-8b"), one)


def test_a_checkpoint_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "mine")
    assert folder.steps_saved() == 0
    for name in ("0", "4", "8.orbax-checkpoint-tmp"):
        (tmp_path / "mine" / "checkpoints" / name).mkdir(parents=True)
    assert folder.steps_saved() == 5


def test_hosts_that_do_not_fit_the_slice_are_refused_before_the_run_is_claimed(tmp_path: Path) -> None:
    from maxtext_driver.ray_driver import run_on_ray

    placement = Placement(workers=3, topology="4x4", accelerator="TPU-V6E")
    with pytest.raises(InputError, match="--workers 3 with --topology 4x4: "):
        run_on_ray(load_recipe("llama3-8b"), RunFolder(tmp_path, "mine"), placement)
    assert not (tmp_path / "mine").exists()


def test_a_run_whose_last_checkpoint_is_there_is_finished_without_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker was lost between the checkpoint and the marker."""
    from maxtext_driver.ray_driver import run_on_ray

    recipe = load_recipe("llama3-8b")
    (tmp_path / "mine" / "checkpoints" / str(recipe.steps - 1)).mkdir(parents=True)
    assert run_on_ray(recipe, RunFolder(tmp_path, "mine"), Placement(workers=4)) == 0
    assert json.loads((tmp_path / "mine" / "COMPLETE.json").read_text())["steps"] == recipe.steps
    assert "run mine is finished already" in capsys.readouterr().out
