"""Two JaxTrainer workers on CPU, joined as on a TPU slice: the same losses, with and without faults.

They train MaxText's smallest model, and are compared with the undisturbed run. All train on rows of text: a
resumed run that began with the first row again, or read another order, would have other losses.
"""

import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import faulty
import pytest
from tiny import PERIOD, STEPS, data_settings, make_recipe

from ending.exit_codes import Exit
from maxtext_driver import __main__ as command
from maxtext_driver.run_folder import RunFolder

pytestmark = pytest.mark.slow

TOLERANCE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A Ray cluster for all jobs."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    return make_recipe(directory / "recipe.yaml", **data_settings(directory))


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an undisturbed run."""
    output = tmp_path_factory.mktemp("undisturbed")
    assert submit(recipe, output) == 0
    return output / "mine"


@pytest.fixture(scope="module")
def killed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that may lose one worker. It loses one after step 7 and one after step 10, and fails."""
    from maxtext_driver import ray_driver

    output = tmp_path_factory.mktemp("killed")
    (output / "faults").mkdir()
    for step in (7, 10):
        (output / "faults" / str(step)).touch()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as told:
        patch.setattr(command, "dry_run", lambda arguments: 0)
        patch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)
        patch.setattr(ray_driver, "WORKER_FAILURES", 1)
        assert submit(recipe, output) == 1
    assert not list((output / "faults").iterdir())
    (error,) = (line for line in told.getvalue().splitlines() if line.startswith("error: "))
    assert error.startswith("error: run mine failed: ")
    return output / "mine"


@pytest.fixture(scope="module")
def resubmitted(killed: Path, recipe: Path) -> Path:
    """The same command again."""
    assert submit(recipe, killed.parent) == 0
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


def test_a_lost_worker_costs_only_the_steps_since_the_last_checkpoint(killed: Path) -> None:
    """After the first loss the job continued to its next checkpoint; it does not count as finished."""
    assert RunFolder(killed.parent, "mine").steps_saved() == 2 * PERIOD + 1
    assert not (killed / "COMPLETE.json").exists()


def test_a_resubmitted_job_ends_with_the_losses_of_an_undisturbed_one(
    resubmitted: Path, undisturbed: Path
) -> None:
    expected, found = losses(undisturbed), losses(resubmitted)
    resumed_from = 2 * PERIOD + 1
    assert [*range(resumed_from + 1, STEPS + 1)] == [step for step in found if step > resumed_from]
    assert found == pytest.approx({step: expected[step] for step in found}, abs=TOLERANCE)
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


def submit(recipe: Path, output: Path, *options: str) -> int:
    """Submit the command as a job of the cluster."""
    where = ["--recipe", str(recipe), "--output", str(output), "--run", "mine", "--workers", "2"]
    return command.main([*where, *options])


def losses(run: Path) -> dict[int, float]:
    """The loss by step; fails when a step has two."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {line["step"]: line["loss"] for line in lines}
    assert len(found) == len(lines)
    return found
