"""Two Ray workers: the losses of one process with twice the batch, with and without faults.

Resuming with dropout, whose masks differ between processes, is tested under torchrun: test_two_nodes.
"""

import re
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import faulty
import pytest
from outcomes import losses

from finetune.__main__ import main
from finetune.storage.checkpoint import RunFolder
from rehearsal.running_pods.tiny import make_recipe
from rehearsal.stand_ins.bucket import Buckets, Fault

TOLERANCE = 1e-4

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row per process and step, eight steps on two processes, a checkpoint every two."""
    path = make_recipe(tmp_path_factory.mktemp("recipe") / "recipe.yaml", tiny, batch_size=1)
    path.write_text(path.read_text().replace("dropout: 0.05", "dropout: 0"))
    return path


@pytest.fixture(scope="module")
def one_process(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of one process with twice the batch."""
    store = tmp_path_factory.mktemp("store")
    assert main([*local(recipe, store, "one"), "--set", "training.batch_size=2"]) == 0
    return losses(store / "one")


@pytest.fixture(scope="module")
def killed_job(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that may lose one worker. It loses one in step 3 and another in step 6, and fails."""
    from finetune import ray_driver

    store = tmp_path_factory.mktemp("ray")
    (store / "faults").mkdir()
    for step in (3, 6):
        (store / "faults" / str(step)).touch()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as errors:
        patch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)
        patch.setattr(ray_driver, "WORKER_FAILURES", 1)
        assert on_ray(recipe, store) == 1
    assert not list((store / "faults").iterdir())
    assert [line[:24] for line in errors.getvalue().splitlines() if "error: " in line] == [
        "error: run mine failed: "
    ]
    return store / "mine"


@pytest.fixture(scope="module")
def resubmitted_job(killed_job: Path, recipe: Path) -> Path:
    """The same command again."""
    assert on_ray(recipe, killed_job.parent) == 0
    return killed_job


def test_a_lost_worker_costs_only_the_steps_since_the_last_checkpoint(
    killed_job: Path, one_process: list[float]
) -> None:
    """After the first loss the job continued from step 2 to step 5 or 6. It does not count as finished."""
    newest = RunFolder(str(killed_job.parent), killed_job.name).newest_checkpoint()
    assert newest and newest.step == 4
    assert losses(killed_job)[:4] == pytest.approx(one_process[:4], abs=TOLERANCE)
    assert not (killed_job / "COMPLETE.json").exists()


def test_a_resubmitted_job_ends_with_the_losses_of_one_undisturbed_process(
    resubmitted_job: Path, one_process: list[float]
) -> None:
    assert losses(resubmitted_job) == pytest.approx(one_process, abs=TOLERANCE)
    assert (resubmitted_job / "COMPLETE.json").exists()


def test_checkpoints_on_ray_come_from_rank_0_once_with_every_rank_s_random_state(
    resubmitted_job: Path,
) -> None:
    saved = sorted(resubmitted_job.glob("checkpoint-*"))
    assert [path.name[:19] for path in saved] == ["checkpoint-00000006", "checkpoint-00000008"]
    assert all(len(list(path.glob("rng_state_*.pth"))) == 2 for path in saved)


def test_a_finished_job_that_is_submitted_again_trains_nothing_and_succeeds(
    resubmitted_job: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(resubmitted_job.rglob("*"))
    assert on_ray(recipe, resubmitted_job.parent) == 0
    assert "run mine is finished already" in capsys.readouterr().out
    assert sorted(resubmitted_job.rglob("*")) == before


def test_an_infinity_in_one_worker_s_gradient_ends_the_job_when_it_comes_again(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray starts the workers again, as after any error."""
    from finetune import ray_driver

    monkeypatch.setattr(ray_driver, "train_on_worker", faulty.train_with_poison)
    assert on_ray(recipe, tmp_path) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    (newest,) = (tmp_path / "mine").glob("checkpoint-00000004-*")
    assert "error: loss or gradient is not finite at step 5, for the second time" in error
    assert f"{newest.name} is kept" in error
    assert len(losses(tmp_path / "mine")) == 4


def on_ray(recipe: Path, store: Path | str) -> int:
    """Run the command on a Ray that is started and stopped here."""
    import ray

    try:
        return main(["ray", *local(recipe, store, "mine")[1:], "--workers", "2"])
    finally:
        ray.shutdown()


def local(recipe: Path, store: Path | str, run: str) -> list[str]:
    return ["local", "--recipe", str(recipe), "--storage", str(store), "--run", run]


def test_a_bucket_that_refuses_access_at_a_checkpoint_costs_no_step_and_no_worker(
    recipe: Path,
    one_process: list[float],
    buckets: Buckets,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Ray itself asks nothing of the bucket. It would not ask again, and the run would end."""
    from finetune import ray_driver

    monkeypatch.setattr(ray_driver, "WORKER_FAILURES", 0)
    buckets.faults = [Fault(status=403, name=name) for name in ("checkpoint-00000004", "checkpoint_manager")]
    assert on_ray(recipe, "gs://bucket") == 0
    run = buckets.folder / "bucket/mine"
    assert losses(run) == pytest.approx(one_process, abs=TOLERANCE)
    assert re.findall(r"from step \d+", capfd.readouterr().out) == ["from step 0"]
    assert [fault.name for fault in buckets.faults] == ["checkpoint_manager"]
