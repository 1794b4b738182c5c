"""Two JaxTrainer workers on CPU, joined as on a TPU slice: the same losses, with and without faults.

They train MaxText's smallest model, and are compared with the undisturbed run. All train on rows of text: a
resumed run that began with the first row again, or read another order, would have other losses.
"""

import json
import os
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import faulty
import pytest
from tiny import PERIOD, STEPS, data_settings, make_recipe, make_rows

from maxtext_driver import __main__ as command
from maxtext_driver.run_folder import RunFolder
from rehearsal.stand_ins.hub import Hub
from shared.exit_codes import Exit

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A Ray cluster for all jobs, with one node more than they need."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S"] = "0.2"
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}, connect=True
    )
    for _ in range(2):
        cluster.add_node(num_cpus=4)
    yield
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def recipe(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its rows are on the Hub."""
    directory = tmp_path_factory.mktemp("data")
    settings = data_settings(directory)
    hub.data_set("me/rows").push(directory)
    settings["grain_train_files"] = "hf://datasets/me/rows/rows-*.parquet"
    return make_recipe(directory / "recipe.yaml", **settings)


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an undisturbed run."""
    output = tmp_path_factory.mktemp("undisturbed")
    assert submit(recipe, output) == 0
    return output / "mine"


@pytest.fixture(scope="module")
def killed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that may lose one worker. It loses one after step 7 and one after step 10, and fails.

    Before that one of its nodes is drained.
    """
    from maxtext_driver import ray_driver

    output = tmp_path_factory.mktemp("killed")
    (output / "faults").mkdir()
    for fault in ("drain-2", "7", "10"):
        (output / "faults" / fault).touch()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as errors:
        patch.setattr(command, "dry_run", lambda arguments: 0)
        patch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)
        patch.setattr(ray_driver, "WORKER_FAILURES", 1)
        assert submit(recipe, output) == 1
    assert not list((output / "faults").iterdir())
    (error,) = (line for line in errors.getvalue().splitlines() if line.startswith("error: "))
    assert error.startswith("error: run mine failed: ")
    return output / "mine"


@pytest.fixture(scope="module")
def resubmitted(killed: Path, recipe: Path, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same command again, while the Hub has other rows."""
    later = tmp_path_factory.mktemp("later")
    make_rows(later, seed=8)
    hub.data_set("me/rows").push(later)
    assert submit(recipe, killed.parent) == 0
    hub.data_set("me/rows").push(recipe.parent)
    return killed


def test_every_step_of_a_run_is_in_its_metrics_with_time_and_speed(undisturbed: Path) -> None:
    lines = [json.loads(line) for line in (undisturbed / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [*range(1, STEPS + 1)]
    for line in lines:
        assert line["seconds"] > 0
        assert line["tokens_per_second_per_chip"] == pytest.approx(2 * 32 / line["seconds"])
        assert line["tflops_per_second_per_chip"] > 0
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_checkpoints_are_whole_and_come_on_the_period_and_at_the_end(undisturbed: Path) -> None:
    saved = {entry.name for entry in (undisturbed / "checkpoints").iterdir()}
    assert saved == {"0", str(PERIOD), str(2 * PERIOD), str(STEPS - 1)}
    assert json.loads((undisturbed / "COMPLETE.json").read_text())["steps"] == STEPS


def test_a_drained_node_costs_no_step_and_does_not_count_as_a_lost_worker(killed: Path) -> None:
    """All steps are saved. MaxText has not logged the last ones. The job went on to lose its workers."""
    starts = [tuple(map(int, line.split())) for line in (killed.parent / "starts").read_text().splitlines()]
    saved, logged = starts[1]
    assert saved > max(logged, 3)
    assert len(starts) == 3


def test_a_lost_worker_costs_only_the_steps_since_the_last_checkpoint(killed: Path) -> None:
    """After the first loss the job continued to its next checkpoint. It does not count as finished."""
    assert RunFolder(killed.parent, "mine").steps_saved() == 2 * PERIOD + 1
    assert not (killed / "COMPLETE.json").exists()


def test_a_resubmitted_job_ends_with_the_losses_of_an_undisturbed_one(
    resubmitted: Path, undisturbed: Path
) -> None:
    expected, loss_at = losses(undisturbed), losses(resubmitted)
    resumed_from = 2 * PERIOD + 1
    assert [*range(resumed_from + 1, STEPS + 1)] == [step for step in loss_at if step > resumed_from]
    assert loss_at == pytest.approx({step: expected[step] for step in loss_at}, abs=TOLERANCE)
    assert (resubmitted / "COMPLETE.json").exists()


def test_a_finished_job_that_is_submitted_again_trains_nothing_and_succeeds(
    resubmitted: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(resubmitted.rglob("*"))
    assert submit(recipe, resubmitted.parent) == 0
    assert "run mine is finished already" in capsys.readouterr().out
    assert sorted(resubmitted.rglob("*")) == before


def test_at_its_limit_a_run_saves_on_all_hosts_and_with_a_higher_one_it_goes_on(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(recipe, tmp_path, "--max-run-hours=1e-9") == Exit.LIMIT_REACHED
    assert "error: the run has trained for" in capsys.readouterr().err
    reached = RunFolder(tmp_path, "mine").steps_saved()
    assert 1 <= reached < STEPS
    assert submit(recipe, tmp_path, "--max-run-hours=1e-9") == Exit.LIMIT_REACHED
    assert RunFolder(tmp_path, "mine").steps_saved() == reached
    assert submit(recipe, tmp_path, "--max-run-hours=9") == 0
    assert max(losses(tmp_path / "mine")) == STEPS


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lost worker is replaced, workers find the faults, and the recipe needs no look of MaxText's."""
    from maxtext_driver import ray_driver

    monkeypatch.setattr(command, "dry_run", lambda arguments: 0)
    monkeypatch.setattr(ray_driver, "WORKER_FAILURES", 0)
    monkeypatch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)


def with_fault(output: Path, fault: str) -> Path:
    (output / "faults").mkdir()
    (output / "faults" / fault).touch()
    return output


@pytest.mark.usefixtures("one_try")
def test_a_sigterm_saves_on_all_hosts_and_they_start_again_which_counts_as_no_failure(
    recipe: Path, tmp_path: Path, undisturbed: Path
) -> None:
    assert submit(recipe, with_fault(tmp_path, "term-2")) == 0
    _, second = [int(line.split()[0]) for line in (tmp_path / "starts").read_text().splitlines()]
    assert 2 <= second < STEPS
    loss_at, expected = losses(tmp_path / "mine"), losses(undisturbed)
    assert loss_at == pytest.approx({step: expected[step] for step in loss_at}, abs=TOLERANCE)
    assert max(loss_at) == STEPS


@pytest.mark.usefixtures("one_try")
def test_a_driver_that_is_told_to_end_has_all_hosts_save_and_the_same_command_goes_on(
    recipe: Path, tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by `ray job stop`, whose job is stopped then and has not failed."""
    (with_fault(tmp_path, "stop-2") / "faults" / "stop-2").write_text(str(os.getpid()))
    assert submit(recipe, tmp_path) == Exit.INTERRUPTED
    saved = RunFolder(tmp_path, "mine").steps_saved()
    assert 2 <= saved < STEPS
    message = f"run mine was stopped; the same command goes on from step {saved}"
    assert message in capsys.readouterr().out
    assert submit(recipe, tmp_path) == 0
    starts = [int(line.split()[0]) for line in (tmp_path / "starts").read_text().splitlines()]
    assert starts == [0, saved]
    loss_at, expected = losses(tmp_path / "mine"), losses(undisturbed)
    assert loss_at == pytest.approx({step: expected[step] for step in loss_at}, abs=TOLERANCE)
    assert max(loss_at) == STEPS


def saved_files(run: Path) -> dict[Path, bytes]:
    """All checkpoints."""
    return {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}


@pytest.mark.usefixtures("one_try")
def test_what_is_no_number_is_not_saved_and_the_second_time_is_final(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diverging = (
        "--set=learning_rate=1e38",
        "--set=checkpoint_period=1",
        "--set=max_num_checkpoints_to_keep=99",
    )
    assert submit(recipe, tmp_path, *diverging) == Exit.FAILED
    saved, before = RunFolder(tmp_path, "mine").steps_saved(), saved_files(tmp_path / "mine")
    assert saved >= 1
    errors = capsys.readouterr().err
    assert (
        f"loss or gradient is not finite at step {saved + 1}; the checkpoint of step {saved} is kept"
        in errors
    )
    assert submit(recipe, tmp_path, *diverging) == Exit.BAD_INPUT
    assert f"step {saved + 1}, for the second time with the same rows" in capsys.readouterr().err
    assert saved_files(tmp_path / "mine") == before


@pytest.mark.parametrize(
    ("rows", "broken", "message"),
    [
        (48, None, "error: the rows are enough for "),
        (200, 1, "error: rows of the data: "),
    ],
)
def test_rows_that_end_or_cannot_be_read_end_the_run_at_once_with_the_reason(
    rows: int,
    broken: int | None,
    message: str,
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One host alone reads the broken file, and it is not the first."""
    from maxtext_driver import ray_driver

    monkeypatch.setattr(command, "dry_run", lambda arguments: 0)
    monkeypatch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)
    make_rows(tmp_path, rows=rows // 4, broken=broken)
    files = f"--set=grain_train_files={tmp_path}/rows-*.parquet"
    assert submit(recipe, tmp_path, files, "--set=enable_data_shuffling=false") == Exit.BAD_INPUT
    assert message in capsys.readouterr().err
    # The workers start a second time only to find the reason, which one of them has left.
    assert not RunFolder(tmp_path, "mine").finished()
    assert len((tmp_path / "starts").read_text().splitlines()) <= 2


@pytest.mark.usefixtures("one_try")
def test_a_run_that_another_start_has_taken_over_saves_nothing_more(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(recipe, with_fault(tmp_path, "other-6")) == Exit.BAD_INPUT
    assert "this start publishes nothing more" in capsys.readouterr().err
    assert RunFolder(tmp_path, "mine").steps_saved() == PERIOD + 1


def submit(recipe: Path, output: Path, *options: str) -> int:
    """Submit the command as a job of the cluster."""
    where = ["--recipe", str(recipe), "--output", str(output), "--run", "mine", "--workers", "2"]
    return command.main([*where, *options])


def losses(run: Path) -> dict[int, float]:
    """The loss by step. Fails when a step has two."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    loss_at = {line["step"]: line["loss"] for line in lines}
    assert len(loss_at) == len(lines)
    return loss_at
