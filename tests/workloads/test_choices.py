"""What a run chooses where its recipe says nothing, and that it keeps it."""

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import local, torchrun
from outcomes import losses

from finetune.__main__ import main
from finetune.settings.choice import SHARE, Rows, Size, choose
from finetune.settings.sections import Training
from rehearsal.running_pods.tiny import make_recipe

# A model for whose activations a GPU has 10,000 bytes: 1 a token if they are computed twice.
SMALL = Size(memory=10_000 / SHARE, fixed=0.0, kept=4.0, recomputed=1.0)
SHORT, LONG = [50] * 300, [*[400] * 300, 5000]


def values(training: Training) -> tuple[Any, ...]:
    return (training.packing, training.max_length, training.batch_size, training.gradient_checkpointing)


@pytest.mark.parametrize(
    ("stated", "lengths", "size", "chosen"),
    [
        # Sixteen rows a pack, and without a GPU nothing is computed twice.
        ({"packing": True}, SHORT, None, (True, 832, 1, False)),
        ({"packing": True}, LONG, None, (True, 6656, 1, False)),
        # One row of 301 is much longer than the others, and left out.
        ({"packing": False}, LONG, None, (False, 448, 16, False)),
        ({"packing": False}, SHORT, None, (False, 64, 16, False)),
        # A pack that keeps a GPU busy is not made longer by computing twice.
        ({"packing": True}, LONG, SMALL, (True, 2496, 1, False)),
        ({"packing": False}, LONG, SMALL, (False, 448, 5, False)),
        # The longest of rows that are all long fits only if activations are computed twice.
        ({"packing": True}, [6000] * 300, SMALL, (True, 9984, 1, True)),
        ({"packing": False}, [6000] * 300, SMALL, (False, 6016, 1, True)),
        # What is given stays, and the rest is chosen for it.
        ({"packing": True, "max_length": 5000}, SHORT, SMALL, (True, 5000, 1, True)),
        ({"packing": False, "batch_size": 3}, LONG, SMALL, (False, 448, 3, False)),
        ({"packing": True, "gradient_checkpointing": True}, SHORT, None, (True, 832, 1, True)),
    ],
)
def test_length_batch_and_recomputation_follow_from_rows_and_memory(
    stated: dict[str, Any], lengths: list[int], size: Size | None, chosen: tuple[Any, ...]
) -> None:
    training = choose(Training(**stated), Rows(count=len(lengths), lengths=lengths), size)
    assert values(training) == chosen
    assert (training.max_length or 0) * training.batch <= (size.tokens(training.recomputes) if size else inf)


def test_few_rows_still_make_several_steps_and_positions_limit_a_length() -> None:
    few = choose(Training(packing=True), Rows(count=40, lengths=[100] * 40), None, processes=2)
    assert few.max_length == 256
    limited = choose(Training(packing=True), Rows(count=300, lengths=SHORT), None, positions=512)
    assert limited.max_length == 512


def test_rows_with_pictures_have_no_length() -> None:
    training = choose(Training(packing=False), Rows(count=300, lengths=SHORT), SMALL, pictures=True)
    assert values(training) == (False, None, 16, False)


def silent(folder: Path, tiny: Path) -> Path:
    """A recipe of a few lines over the emoji rows."""
    path = make_recipe(folder / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    tree = yaml.safe_load(path.read_text())
    tree["training"] = {"epochs": 1, "save_every_steps": 1, "log_every_steps": 1, "loader_processes": 0}
    tree["model"]["quantization"] = "none"
    tree.pop("evaluation", None)
    path.write_text(yaml.safe_dump(tree))
    return path


def run(path: Path, store: Path, *more: str) -> int:
    return main(["local", f"--recipe={path}", f"--storage={store}", "--run=mine", *more])


def test_a_run_says_and_records_what_it_chose_and_a_later_start_keeps_it(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = silent(tmp_path, tiny)
    assert run(path, tmp_path) == 0
    line = "chosen, because the recipe does not say it: packing true, max_length "
    assert line in capsys.readouterr().out
    record = json.loads((tmp_path / "mine/run.json").read_text())
    assert record["recipe"]["training"]["packing"] is None
    assert record["chosen"]["packing"] is True and record["chosen"]["gradient_checkpointing"] is False
    # The end is lost, and the machine is another one: the run goes on with what it chose.
    first = losses(tmp_path / "mine")
    for lost in ("COMPLETE.json", *[f"{path.name}/COMPLETE.json" for path in later(tmp_path / "mine")]):
        (tmp_path / "mine" / lost).unlink()
    monkeypatch.setattr("finetune.run.choices.settled", pytest.fail)
    assert run(path, tmp_path) == 0
    assert losses(tmp_path / "mine") == first


def later(folder: Path) -> list[Path]:
    """The checkpoints of a run but its first."""
    return sorted(folder.glob("checkpoint-*"))[1:]


def test_a_choice_that_is_none_ends_the_start(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = silent(tmp_path, tiny)
    assert run(path, tmp_path) == 0
    file = tmp_path / "mine/run.json"
    record = json.loads(file.read_text())
    for chosen in ({"packing": True}, {**record["chosen"], "batch_size": "many"}, ["packing"]):
        file.write_text(json.dumps(record | {"chosen": chosen}))
        assert run(path, tmp_path) == 2
        assert "has no whole choice of settings" in capsys.readouterr().err


def test_the_dry_run_says_the_same_choice(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = silent(tmp_path, tiny)
    assert main(["local", f"--recipe={path}", "--dry-run"]) == 0
    (planned,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chosen")]
    assert run(path, tmp_path) == 0
    assert planned in capsys.readouterr().out.splitlines()


def test_all_processes_take_one_choice_and_it_stays_with_fewer(
    warm: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = silent(tmp_path, tiny)
    setting = "--set=training.epochs=2"
    entry = {"arguments": [*local(path, tmp_path, "mine"), setting]}
    code, output = torchrun(warm, path, tmp_path, entry, more=[setting])
    assert code == 0, output
    assert output.count("chosen, because the recipe does not say it") == 1
    folder = tmp_path / "mine"
    record, first = json.loads((folder / "run.json").read_text()), losses(folder)
    assert record["chosen"]["packing"] is True
    for lost in ("COMPLETE.json", *[f"{path.name}/COMPLETE.json" for path in later(folder)]):
        (folder / lost).unlink()
    assert main([*local(path, tmp_path, "mine"), setting, "--resize"]) == 0
    assert "chosen, because" not in capsys.readouterr().out
    assert json.loads((folder / "run.json").read_text())["chosen"] == record["chosen"]
    assert len(losses(folder)) == len(first)
