"""Training in one process: the loss, stopping and resuming, the published adapter."""

import errno
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from outcomes import losses, stopped_half_way
from torch.distributed.checkpoint import save

from finetune.__main__ import main
from finetune.run.driver import Request
from finetune.storage.checkpoint import RunFolder
from rehearsal.running_pods.tiny import make_recipe
from shared.files import FileSum
from shared.remembered import SUBMISSION

TOLERANCE = 1e-5


def train(recipe: Path, store: Path, run: str) -> int:
    return main(["local", "--recipe", str(recipe), "--storage", str(store), "--run", run])


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps, a checkpoint every two, with dropout."""
    return make_recipe(tmp_path_factory.mktemp("recipe") / "recipe.yaml", tiny)


@pytest.fixture(scope="module")
def undisturbed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from start to end."""
    store = tmp_path_factory.mktemp("undisturbed")
    assert train(recipe, store, "mine") == 0
    return store / "mine"


@pytest.fixture(scope="module")
def terminated(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that gets SIGTERM during its third step."""
    from finetune import local_driver

    asked, store = [], tmp_path_factory.mktemp("terminated")

    def terminate(driver: local_driver.LocalDriver) -> Request:
        asked.append(1)
        if len(asked) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(driver)

    original = local_driver.LocalDriver.requested
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_driver.LocalDriver, "requested", terminate)
        assert train(recipe, store, "mine") == 143
    return store / "mine"


@pytest.fixture
def terminated_after_step_3(terminated: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return shutil.copytree(terminated, tmp_path / "mine")


def test_torch_computes_on_one_thread_whichever_file_imports_it_first() -> None:
    assert torch.get_num_threads() == 1


def test_the_loss_falls_and_every_step_is_in_the_metrics(undisturbed: Path) -> None:
    values = losses(undisturbed)
    assert len(values) == 8
    assert values[-1] < values[0]


def test_the_loss_does_not_depend_on_how_a_step_is_cut_into_accumulation(tiny: Path, tmp_path: Path) -> None:
    """Replies have 2 to 14 words, so an average of the batches' averages would differ."""
    whole = without_dropout(make_recipe(tmp_path / "whole.yaml", tiny, batch_size=4))
    parts = without_dropout(make_recipe(tmp_path / "parts.yaml", tiny, batch_size=1, accumulation_steps=4))
    assert train(whole, tmp_path, "whole") == train(parts, tmp_path, "parts") == 0
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), abs=1e-4)


def test_loader_processes_change_nothing_but_the_speed(tiny: Path, tmp_path: Path, undisturbed: Path) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, loader_processes=2)
    assert train(recipe, tmp_path, "mine") == 0
    assert losses(tmp_path / "mine") == pytest.approx(losses(undisturbed), abs=TOLERANCE)


def test_a_terminated_run_saves_and_is_not_taken_for_finished(terminated_after_step_3: Path) -> None:
    run = terminated_after_step_3
    assert len(losses(run)) == 3
    newest = RunFolder(str(run.parent), run.name).newest_checkpoint()
    assert newest and newest.step == 3
    assert not (run / "COMPLETE.json").exists()
    assert not (run / "adapter").exists()


def test_a_terminated_run_that_is_started_again_has_the_losses_of_an_undisturbed_one(
    terminated_after_step_3: Path, recipe: Path, undisturbed: Path
) -> None:
    run = terminated_after_step_3
    assert train(recipe, run.parent, run.name) == 0
    assert losses(run) == pytest.approx(losses(undisturbed), abs=TOLERANCE)
    assert same_adapter(run, undisturbed)


def test_a_run_that_is_only_asked_to_save_saves_once_and_goes_on(
    recipe: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Ray driver asks for it after every step while a node is being drained."""
    from finetune import local_driver

    requests = iter([Request.CONTINUE] * 2 + [Request.SAVE] * 6)
    saved: list[str] = []
    complete = RunFolder.complete_checkpoint

    def note(run: RunFolder, name: str, files: dict[str, FileSum]) -> None:
        saved.append(name[:19])
        complete(run, name, files)

    monkeypatch.setattr(local_driver.LocalDriver, "requested", lambda _: next(requests))
    monkeypatch.setattr(RunFolder, "complete_checkpoint", note)
    assert train(recipe, tmp_path, "mine") == 0
    assert saved == [f"checkpoint-{step:08d}" for step in (2, 3, 4, 6, 8)]
    assert losses(tmp_path / "mine") == pytest.approx(losses(undisturbed), abs=TOLERANCE)


@pytest.mark.parametrize(("submission", "code"), [("another", 2), ("mine", 143)])
def test_a_run_that_a_newer_start_has_taken_over_ends_before_it_saves(
    submission: str,
    code: int,
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A Job ignores the code of a pod that it has replaced. After the other code nobody tries again."""
    from finetune import local_driver

    monkeypatch.setenv(SUBMISSION, "mine")
    asked = iter(range(1, 9))

    def taken_over(_: local_driver.LocalDriver) -> Request:
        if next(asked) == 3:
            with monkeypatch.context() as elsewhere:
                elsewhere.setenv(SUBMISSION, submission)
                RunFolder(str(tmp_path), "mine").writer.begin()
        return Request.CONTINUE

    monkeypatch.setattr(local_driver.LocalDriver, "requested", taken_over)
    try:
        assert train(recipe, tmp_path, "mine") == code
    except SystemExit as end:
        assert end.code == code
    assert "run mine goes on at " in "".join(capfd.readouterr())
    assert [path.name[:19] for path in (tmp_path / "mine").glob("checkpoint-*")] == ["checkpoint-00000002"]
    if code == 2:
        assert train(recipe, tmp_path, "mine") == 2
        assert "an earlier try's finding" in capfd.readouterr().err


@pytest.mark.parametrize("where", ["run", "node"])
def test_a_full_disk_is_one_line_and_leaves_nothing_half(
    where: str,
    terminated_after_step_3: Path,
    recipe: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the node it is the trainer that writes."""
    run = terminated_after_step_3
    before = snapshot(run)
    with monkeypatch.context() as full:
        if where == "run":
            stopped_half_way(full, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        else:
            full.setattr("torch.save", no_room)
        assert train(recipe, run.parent, run.name) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "a disk is full; with more room the same command goes on from the newest checkpoint" in error
    # A folder for the files of a checkpoint, of which none is there, is nothing half.
    files = {path for path in run.rglob("*") if path.is_file()}
    assert {path for path in files if path.name not in ("time.json", "metrics.jsonl")} <= set(before)
    assert not list(Path(tempfile.gettempdir(), "finetune").glob("mine-*/rank-*"))
    assert train(recipe, run.parent, run.name) == 0
    assert losses(run) == pytest.approx(losses(undisturbed), abs=TOLERANCE)


def test_a_full_disk_is_one_line_where_checkpoints_are_sharded_too(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What torch raises then is no Exception, and holds what each rank met."""

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def save_sharded(*_: object) -> int:
        save({"weight": torch.zeros(2)}, checkpoint_id=tmp_path / "sharded", no_dist=True)
        return 0

    monkeypatch.setattr("torch.distributed.checkpoint.filesystem.FileSystem.create_stream", no_space)
    monkeypatch.setattr("finetune.local_driver.run_local", save_sharded)
    assert train(recipe, tmp_path, "mine") == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: a disk is full; with more room")
    assert error.endswith("No space left on device")


def test_a_checkpoint_cut_off_half_way_is_ignored(
    terminated_after_step_3: Path, recipe: Path, undisturbed: Path
) -> None:
    run = terminated_after_step_3
    (newest,) = run.glob("checkpoint-00000003-*")
    weights = newest / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert train(recipe, run.parent, run.name) == 0
    assert losses(run) == pytest.approx(losses(undisturbed), abs=TOLERANCE)
    assert same_adapter(run, undisturbed)


@pytest.mark.parametrize("figure", ["loss", "eval_loss"])
def test_a_loss_that_is_no_number_ends_the_run_before_it_is_logged_or_saved(
    figure: str,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where the step is not one that is logged by itself."""
    import torch
    from trl import SFTTrainer

    compute_loss = SFTTrainer.compute_loss

    def spoilt(self: Any, model: Any, *more: Any, **options: Any) -> Any:
        result = compute_loss(self, model, *more, **options)
        if self.state.global_step < 3 or model.training != (figure == "loss"):
            return result
        # The gradient stays what it is.
        return (result[0] + torch.nan, result[1]) if isinstance(result, tuple) else result + torch.nan

    monkeypatch.setattr(SFTTrainer, "compute_loss", spoilt)
    more = {"batch_size": 1, "log_every_steps": 100, "save_every_steps": 2, "evaluate_every_steps": 2}
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", **more)
    assert train(recipe, tmp_path, "mine") == 1
    errors = capsys.readouterr().err
    (kept,) = (tmp_path / "mine").glob("checkpoint-*")
    assert f"error: loss or gradient is not finite at step 4; {kept.name} is kept" in errors
    assert kept.name.startswith("checkpoint-00000002")
    logged = (tmp_path / "mine" / "metrics.jsonl").read_text()
    assert "NaN" not in logged and '"step": 2' in logged
    assert train(recipe, tmp_path, "mine") == 2
    assert "for the second time" in capsys.readouterr().err


def test_a_finished_run_is_left_alone_and_says_so(
    undisturbed: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(undisturbed)
    assert train(recipe, undisturbed.parent, undisturbed.name) == 0
    assert f"run mine is finished already, its adapter is in {undisturbed}/adapter" in capsys.readouterr().out
    assert snapshot(undisturbed) == before


def test_a_run_cut_off_between_its_last_step_and_the_marker_is_published_without_another_step(
    undisturbed: Path, recipe: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(undisturbed, tmp_path / "mine")
    (run / "COMPLETE.json").unlink()
    (run / "adapter" / "adapter_model.safetensors").unlink()
    assert train(recipe, tmp_path, "mine") == 0
    assert losses(run) == losses(undisturbed)
    assert same_adapter(run, undisturbed)
    assert json.loads((run / "COMPLETE.json").read_text())["steps"] == 8


def test_the_first_interrupt_from_the_keyboard_saves_and_stops_and_the_second_ends(tmp_path: Path) -> None:
    from finetune.local_driver import LocalDriver

    driver = LocalDriver(RunFolder(str(tmp_path), "mine"))
    assert driver.requested() == Request.CONTINUE
    signal.raise_signal(signal.SIGINT)
    assert driver.requested() == Request.SAVE_AND_STOP
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_only_the_newest_checkpoints_stay(undisturbed: Path) -> None:
    assert [path.name[:19] for path in sorted(undisturbed.glob("checkpoint-*"))] == [
        "checkpoint-00000006",
        "checkpoint-00000008",
    ]


def test_the_published_adapter_has_nothing_of_the_trainer_and_no_copy_of_the_vocabulary(
    undisturbed: Path,
) -> None:
    from safetensors import safe_open

    files = {path.name for path in (undisturbed / "adapter").iterdir()}
    assert {
        "adapter_config.json",
        "adapter_model.safetensors",
        "tokenizer.json",
        "chat_template.jinja",
    } <= files
    assert not {"optimizer.pt", "rng_state.pth", "trainer_state.json", "training_args.bin"} & files
    with safe_open(undisturbed / "adapter" / "adapter_model.safetensors", "pt") as weights:
        names = list(weights.keys())
    assert all(".lora_" in name and "language_model" in name for name in names)


def test_an_adapter_that_does_not_come_back_as_trained_is_not_published(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from finetune.run import callbacks

    verify = callbacks.verify_adapter

    def verify_changed_weights(trained: dict[str, Any], directory: Path) -> None:
        verify({name: weight + 1 for name, weight in trained.items()}, directory)

    monkeypatch.setattr(callbacks, "verify_adapter", verify_changed_weights)
    assert train(recipe, tmp_path, "mine") == 1
    assert "differs from the trained one" in capsys.readouterr().err.splitlines()[-1]
    assert not list((tmp_path / "mine").rglob("COMPLETE.json"))


def no_room(_: object, path: str) -> None:
    """As torch on a disk that is full."""
    Path(path).write_bytes(bytes(10))
    raise RuntimeError(
        "[enforce fail at inline_container.cc:672] . PytorchStreamWriter failed writing file data/0"
    )


def without_dropout(recipe: Path) -> Path:
    recipe.write_text(recipe.read_text().replace("dropout: 0.05", "dropout: 0"))
    return recipe


def same_adapter(one: Path, other: Path) -> bool:
    name = "adapter/adapter_model.safetensors"
    return (one / name).read_bytes() == (other / name).read_bytes()


def snapshot(run: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in run.rglob("*")}
