"""Two processes under torchrun, and two Ray workers: the same losses, with and without faults.

All runs are compared with the undisturbed one under torchrun, those under Ray too.
"""

import json
import subprocess
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import faulty
import pytest
from outcomes import losses
from tiny import make_recipe

from finetune.__main__ import main
from finetune.checkpoint import RunFolder

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row per process and step, eight steps on two processes, a checkpoint every two, with dropout."""
    return make_recipe(tmp_path_factory.mktemp("recipe") / "recipe.yaml", tiny, batch_size=1)


@pytest.fixture(scope="module")
def steady_recipe(recipe: Path) -> Path:
    """The same without dropout, whose masks differ between ranks."""
    path = recipe.with_name("steady.yaml")
    path.write_text(recipe.read_text().replace("dropout: 0.05", "dropout: 0"))
    return path


@pytest.fixture(scope="module")
def store(recipe: Path, steady_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs `undisturbed` and `steady` of two processes, and the rows that `steady` read by process."""
    path = tmp_path_factory.mktemp("store")
    result = torchrun(
        path,
        {"arguments": local(recipe, path, "undisturbed")},
        {"arguments": local(steady_recipe, path, "steady"), "rows": str(path / "rows")},
    )
    assert result.returncode == 0, result.stderr
    return path


def test_two_processes_have_the_losses_of_one_with_twice_the_batch(
    store: Path, steady_recipe: Path, tiny: Path, tmp_path: Path
) -> None:
    one = tmp_path / "one.yaml"
    one.write_text(steady_recipe.read_text().replace("batch_size: 1", "batch_size: 2"))
    assert main(local(one, tmp_path, "one")) == 0
    assert losses(tmp_path / "one") == pytest.approx(losses(store / "steady"), abs=1e-4)


def test_the_processes_share_out_one_order_of_rows(store: Path) -> None:
    """Each row of an epoch goes to exactly one process; the trainer itself reads row 0 once before."""
    seen = [(store / "rows" / rank).read_text().splitlines()[-8:] for rank in ("0", "1")]
    assert len({*seen[0], *seen[1]}) == 16


def test_a_term_signal_to_one_process_stops_both_and_the_next_start_has_undisturbed_losses(
    store: Path, recipe: Path, tmp_path: Path
) -> None:
    terminate = {"rank": 1, "step": 3}
    result = torchrun(tmp_path, {"arguments": local(recipe, tmp_path, "mine"), "terminate": terminate})
    assert result.returncode != 0
    assert result.stdout.count("run mine was stopped after step 3 of 8 and saved") == 2
    assert not (tmp_path / "mine" / "COMPLETE.json").exists()
    result = torchrun(tmp_path, {"arguments": local(recipe, tmp_path, "mine")})
    assert result.returncode == 0, result.stderr
    assert "from step 3" in result.stdout
    assert losses(tmp_path / "mine") == pytest.approx(losses(store / "undisturbed"), abs=TOLERANCE)


@pytest.fixture(scope="module")
def killed_job(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that may lose one worker. It loses one in step 3 and another in step 6, and fails."""
    from finetune import ray_driver

    store = tmp_path_factory.mktemp("ray")
    (store / "faults").mkdir()
    for step in (3, 6):
        (store / "faults" / str(step)).touch()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as told:
        patch.setattr(ray_driver, "train_on_worker", faulty.train_and_die)
        patch.setattr(ray_driver, "WORKER_FAILURES", 1)
        assert on_ray(recipe, store) == 1
    assert not list((store / "faults").iterdir())
    assert [line[:24] for line in told.getvalue().splitlines() if "error: " in line] == [
        "error: run mine failed: "
    ]
    return store / "mine"


@pytest.fixture(scope="module")
def resubmitted_job(killed_job: Path, recipe: Path) -> Path:
    """The same command again."""
    assert on_ray(recipe, killed_job.parent) == 0
    return killed_job


def test_a_lost_worker_costs_only_the_steps_since_the_last_checkpoint(killed_job: Path, store: Path) -> None:
    """After the first loss the job continued from step 2 to step 5 or 6; it does not count as finished."""
    newest = RunFolder(str(killed_job.parent), killed_job.name).newest_checkpoint()
    assert newest and newest.step == 4
    assert losses(killed_job)[:4] == pytest.approx(losses(store / "undisturbed")[:4], abs=TOLERANCE)
    assert not (killed_job / "COMPLETE.json").exists()


def test_a_resubmitted_job_ends_with_the_losses_of_an_undisturbed_one(
    resubmitted_job: Path, store: Path
) -> None:
    assert losses(resubmitted_job) == pytest.approx(losses(store / "undisturbed"), abs=TOLERANCE)
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


def on_ray(recipe: Path, store: Path) -> int:
    """Run the command on a Ray that is started and stopped here."""
    import ray

    try:
        return main(["ray", *local(recipe, store, "mine")[1:], "--workers", "2"])
    finally:
        ray.shutdown()


def local(recipe: Path, store: Path, run: str) -> list[str]:
    return ["local", "--recipe", str(recipe), "--storage", str(store), "--run", run]


def torchrun(directory: Path, *plan: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    """Run a plan of `faulty` in two processes."""
    file = directory / "plan.json"
    file.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    return subprocess.run([*command, faulty.__file__, str(file)], capture_output=True, text=True, check=False)
