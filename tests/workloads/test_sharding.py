"""FSDP2 on two CPU processes under the torchrun command: the results of one process, with and without faults.

There are two launches: the first is interrupted in its last run, the second resumes it.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from launches import command, edited, local, torchrun
from outcomes import losses, metrics

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe
from rehearsal.stand_ins.bucket import Buckets, Fault

TOLERANCE = 1e-5
WEIGHTS = "adapter_model.safetensors"
# Parts of the tiny model that are sharded and gathered each by itself: layers, embeddings and the rest.
UNITS = 7


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps of one row per process, a checkpoint every two steps, four test rows, with dropout.

    Three of them are answered, which two processes cannot share equally.
    """
    path = make_recipe(
        tmp_path_factory.mktemp("recipe") / "recipe.yaml",
        tiny,
        batch_size=1,
        sharding="fsdp2",
        evaluate_every_steps=4,
    )
    return edited(
        path,
        "recipe.yaml",
        data={"test_rows": 4},
        evaluation={"rows": 3, "max_new_tokens": 5, "every_steps": 2},
    )


@pytest.fixture(scope="module")
def steady_recipe(recipe: Path) -> Path:
    """The same without dropout, whose masks differ between ranks."""
    return edited(recipe, "steady.yaml", lora={"dropout": 0})


@pytest.fixture(scope="module")
def interrupted(
    recipe: Path, steady_recipe: Path, warm: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The runs `undisturbed`, `steady` and `mine`, one of whose processes gets SIGTERM in its third step.

    And its copy `stopped`, and the output.
    """
    store = tmp_path_factory.mktemp("store")
    code, output = torchrun(
        warm,
        recipe,
        store,
        {"arguments": local(recipe, store, "undisturbed")},
        {"arguments": local(steady_recipe, store, "steady"), "gathers": str(store / "gathers")},
        {"arguments": local(recipe, store, "mine"), "terminate": {"rank": 1, "step": 3}},
    )
    assert code == 143
    shutil.copytree(store / "mine", store / "stopped")
    return store, output


@pytest.fixture(scope="module")
def resumed(interrupted: tuple[Path, str], recipe: Path, steady_recipe: Path, warm: str) -> Path:
    """The resumed run `mine`, and `cut`, its copy without one rank's part of the newest checkpoint.

    `unpublished` is `undisturbed` without its published result. `bf16` and `little-memory` are new.
    """
    store, _ = interrupted
    shutil.copytree(store / "mine", store / "cut")
    (newest,) = (store / "cut").glob("checkpoint-00000003-*")
    (newest / "optimizer_0" / "__1_0.distcp").unlink()
    shutil.copytree(store / "undisturbed", store / "unpublished")
    (store / "unpublished" / "COMPLETE.json").unlink()
    shutil.rmtree(store / "unpublished" / "adapter")
    bf16 = edited(recipe, "bf16.yaml", model={"precision": "bf16"})
    code, output = torchrun(
        warm,
        recipe,
        store,
        {"arguments": local(recipe, store, "mine")},
        {"arguments": local(recipe, store, "cut")},
        {"arguments": local(recipe, store, "unpublished")},
        {"arguments": local(bf16, store, "bf16")},
        {
            "arguments": local(steady_recipe, store, "little-memory"),
            "no_room": {"rank": 1},
            "gathers": str(store / "gathers-without-room"),
        },
    )
    assert code == 0, output
    assert "from step 3" in output and "from step 2" in output
    return store


def test_two_processes_have_the_losses_the_adapter_and_the_answers_of_one(
    interrupted: tuple[Path, str], steady_recipe: Path, tmp_path: Path
) -> None:
    one = edited(steady_recipe, "one.yaml", training={"batch_size": 2})
    assert main(local(one, tmp_path, "one")) == 0
    steady = interrupted[0] / "steady"
    assert losses(tmp_path / "one") == pytest.approx(losses(steady), abs=1e-4)
    figures, of_one = (
        [line for line in metrics(run) if "judged" in line] for run in (steady, tmp_path / "one")
    )
    assert [line["step"] for line in figures] == [0, 2, 4, 6]
    assert figures[0] == of_one[0]
    assert answers(steady) == answers(tmp_path / "one") and len(answers(steady)) == 3
    expected, weights = adapter(tmp_path / "one"), adapter(steady)
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        assert weight.numpy() == pytest.approx(expected[name].numpy(), abs=1e-3), name


def test_answers_gather_the_weights_once_and_not_for_every_token(interrupted: tuple[Path, str]) -> None:
    gathers = [json.loads(line) for line in (interrupted[0] / "gathers").read_text().splitlines()]
    assert max(line["gathers"] for line in gathers) == UNITS
    assert {line["whole"] for line in gathers} == {0}, (
        "weights that stay gathered take the next step's memory"
    )


def test_a_model_that_does_not_fit_on_one_rank_is_gathered_for_every_token_on_all(resumed: Path) -> None:
    gathers = [json.loads(line) for line in (resumed / "gathers-without-room").read_text().splitlines()]
    assert min(line["gathers"] for line in gathers) > UNITS
    assert answers(resumed / "little-memory") == answers(resumed / "steady")
    assert losses(resumed / "little-memory") == losses(resumed / "steady")


def test_the_test_rows_are_evaluated_before_the_training_on_the_period_and_at_the_end(
    interrupted: tuple[Path, str], steady_recipe: Path
) -> None:
    store, output = interrupted
    assert list(evaluations(store / "undisturbed")) == [0, 4, 6]
    assert f"step 6 evaluation loss {evaluations(store / 'undisturbed')[6]:.4f}" in output


def test_a_signal_to_one_process_stops_both_and_the_checkpoint_has_every_rank_s_part(
    interrupted: tuple[Path, str],
) -> None:
    store, output = interrupted
    assert output.count("run mine was stopped after step 3 of 6 and saved") == 2
    (newest,) = (store / "stopped").glob("checkpoint-00000003-*")
    files = json.loads((newest / "COMPLETE.json").read_text())["files"]
    for part in ("pytorch_model_fsdp_0/__{}_0.distcp", "optimizer_0/__{}_0.distcp", "rng_state_{}.pth"):
        assert {part.format(0), part.format(1)} <= files.keys()
    assert not (store / "stopped" / "COMPLETE.json").exists()


def test_a_bucket_that_refuses_access_to_a_checkpoint_for_a_while_costs_no_step_and_no_try(
    interrupted: tuple[Path, str], recipe: Path, warm: str, buckets: Buckets, tmp_path: Path
) -> None:
    """Each process uploads a part of it."""
    buckets.faults = [Fault(status=403, name="checkpoint-00000002", times=2)]
    entry = {"arguments": local(recipe, "gs://bucket", "mine")}
    code, output = torchrun(warm, recipe, tmp_path, entry, store="gs://bucket")
    assert code == 0, output
    assert not buckets.faults and output.count("again in") == 2
    assert re.findall(r"from step \d+", output) == ["from step 0"]
    undisturbed = interrupted[0] / "undisturbed"
    assert losses(buckets.folder / "bucket/mine") == pytest.approx(losses(undisturbed), abs=TOLERANCE)


def test_an_interrupted_run_that_goes_on_has_the_losses_of_an_undisturbed_one(resumed: Path) -> None:
    assert losses(resumed / "mine") == pytest.approx(losses(resumed / "undisturbed"), abs=TOLERANCE)
    assert evaluations(resumed / "mine") == pytest.approx(evaluations(resumed / "undisturbed"), abs=TOLERANCE)
    assert (resumed / "mine" / "COMPLETE.json").exists()


def test_a_checkpoint_without_one_rank_s_part_is_ignored(resumed: Path) -> None:
    assert losses(resumed / "cut") == pytest.approx(losses(resumed / "undisturbed"), abs=TOLERANCE)


def test_a_frozen_model_in_bf16_trains_sharded_with_an_adapter_in_fp32(resumed: Path) -> None:
    assert losses(resumed / "bf16") == pytest.approx(losses(resumed / "undisturbed"), abs=0.05)
    assert {str(weight.dtype) for weight in adapter(resumed / "bf16").values()} == {"torch.float32"}


def test_the_published_adapter_is_whole_and_loads_on_the_base_model(resumed: Path, tiny: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText, AutoProcessor

    run = resumed / "mine"
    assert not [path.name for path in (run / "adapter").iterdir() if path.suffix in (".distcp", ".pth")]
    inputs = AutoProcessor.from_pretrained(run / "adapter")(
        text="<bos>soft wool", return_tensors="pt", add_special_tokens=False
    )
    base = AutoModelForImageTextToText.from_pretrained(tiny / "model").eval()
    with torch.no_grad():
        before = base(**inputs).logits
        after = PeftModel.from_pretrained(base, str(run / "adapter")).eval()(**inputs).logits
    assert torch.isfinite(after).all()
    assert not torch.allclose(before, after, atol=1e-3)


def test_a_sharded_model_gives_its_check_what_base_and_adapter_give_in_one_process(
    resumed: Path, tiny: Path
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    base = AutoModelForImageTextToText.from_pretrained(tiny / "model", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, str(resumed / "mine/adapter")).eval()
    rows = json.loads((resumed / "mine/check.json").read_text())["rows"]
    assert len(rows) == 3
    for row in rows:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*row["prompt"], *row["reply"]]])).logits[0]
        logprobs = logits[len(row["prompt"]) - 1 : -1].log_softmax(-1)
        expected = logprobs.gather(1, torch.tensor(row["reply"])[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(row["logprobs"]), expected, atol=1e-3, rtol=0)


def test_a_run_cut_off_before_it_was_published_is_published_out_of_its_last_checkpoint(resumed: Path) -> None:
    assert losses(resumed / "unpublished") == losses(resumed / "undisturbed")
    expected, weights = adapter(resumed / "undisturbed"), adapter(resumed / "unpublished")
    assert weights.keys() == expected.keys()
    assert all((weights[name] == expected[name]).all() for name in expected)
    assert json.loads((resumed / "unpublished" / "COMPLETE.json").read_text())["steps"] == 6
    assert answers(resumed / "unpublished") == answers(resumed / "undisturbed")


def test_a_trained_run_whose_checkpoint_an_older_version_wrote_says_what_to_do(
    interrupted: tuple[Path, str], recipe: Path, warm: str, tmp_path: Path
) -> None:
    """Its last checkpoint has shards alone. Nothing is published and marked as finished."""
    run = shutil.copytree(interrupted[0] / "undisturbed", tmp_path / "older")
    (run / "COMPLETE.json").unlink()
    shutil.rmtree(run / "adapter")
    (newest,) = run.glob("checkpoint-00000006-*")
    listed = json.loads((newest / "COMPLETE.json").read_text())
    for name in [name for name in listed["files"] if re.search("adapter|README|token|process|chat", name)]:
        (newest / name).unlink()
        del listed["files"][name]
    (newest / "COMPLETE.json").write_text(json.dumps(listed))
    code, output = torchrun(warm, recipe, tmp_path, {"arguments": local(recipe, tmp_path, "older")})
    assert code == 2
    (error,) = {line for line in output.splitlines() if line.startswith("error: ")}
    assert f"delete {newest} and start again" in error
    assert "Traceback" not in output and not (run / "COMPLETE.json").exists()


def test_a_recipe_that_the_model_does_not_allow_is_one_line_and_no_traceback(
    recipe: Path, warm: str, tmp_path: Path
) -> None:
    setting = "--set=lora.target_modules=nothing"
    entry = {"arguments": [*local(recipe, tmp_path, "mine"), setting]}
    code, output = torchrun(warm, recipe, tmp_path, entry, more=[setting])
    assert code == 2
    (error,) = {line for line in output.splitlines() if line.startswith("error: ")}
    assert error.startswith("error: lora.target_modules nothing matches no module of")
    assert "Traceback" not in output


def test_a_process_that_waits_for_a_refused_one_ends_with_it(
    recipe: Path, warm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process ends before both have met. The other hears no SIGTERM while it waits to meet it."""
    from launch import torchrun as module

    monkeypatch.setattr(module, "SHUTDOWN_TIMEOUT_AFTER_FAILURE", 1)
    entry = {"arguments": [*local(recipe, tmp_path, "mine"), "--set=lora.rank=3"]}
    code, output = torchrun(warm, recipe, tmp_path, entry)
    assert code == 2
    assert "run mine" in output and "was started with another lora.rank" in output


def test_an_infinity_in_one_rank_s_gradient_ends_the_run_and_its_checkpoints_stay_as_they_are(
    interrupted: tuple[Path, str], recipe: Path, warm: str, tmp_path: Path
) -> None:
    """In a step that saves. The next start comes to the same end, and no other one follows."""
    run = shutil.copytree(interrupted[0] / "stopped", tmp_path / "mine")
    before = contents(run)
    (newest,) = run.glob("checkpoint-00000003-*")
    entry = {"arguments": local(recipe, tmp_path, "mine"), "poison": {"rank": 1, "step": 4}}
    for code, remedy in ((1, "the next start goes on"), (2, "for the second time with the same rows")):
        ended, output = torchrun(warm, recipe, tmp_path, entry)
        assert ended == code
        assert "Traceback" not in output and "nan" not in output
        (error,) = {line for line in output.splitlines() if line.startswith("error: loss")}
        assert error.startswith("error: loss or gradient is not finite at step 4")
        assert f"{newest.name} is kept" in error and remedy in error
        assert contents(run) == before
        assert len(losses(run)) == 3
    assert main(command(recipe, tmp_path, "mine")) == 2


@pytest.mark.slow
def test_two_processes_end_at_the_same_step_when_they_get_no_better_and_publish_the_best(
    recipe: Path, warm: str, tmp_path: Path
) -> None:
    """Terminated after the best, at the last look but one, and resumed."""
    better = {"load_best_model_at_end": True, "early_stopping_patience": 2, "epochs": 2}
    path = edited(recipe, "best.yaml", training={**better, "evaluate_every_steps": 2})
    come_to = {"evaluations": {"0": 4.0, "2": 3.0, "4": 1.0, "6": 2.0, "8": 1.0}}
    entry = {"arguments": local(path, tmp_path, "mine"), **come_to}
    assert torchrun(warm, path, tmp_path, entry | {"terminate": {"rank": 1, "step": 7}})[0] == 143
    code, output = torchrun(warm, path, tmp_path, entry)
    assert code == 0, output
    run = tmp_path / "mine"
    assert "from step 7" in output and len(losses(run)) == 8
    complete = json.loads((run / "COMPLETE.json").read_text())
    assert (complete["steps"], complete["evaluation"]["step"]) == (8, 4)
    (best,) = run.glob("best-*")
    assert best.name == "best-00000004"
    assert (run / "adapter" / WEIGHTS).read_bytes() == (best / WEIGHTS).read_bytes()


@pytest.mark.usefixtures("no_launch")
def test_a_finished_run_starts_no_process(
    resumed: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(recipe, resumed, "mine")) == 0
    assert "run mine is finished already" in capsys.readouterr().out


@pytest.mark.usefixtures("no_launch")
def test_another_number_of_processes_is_refused_before_any_is_started(
    resumed: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(recipe, resumed, "mine", processes=4)) == 2
    assert "the setting resume: resize or --resize takes others" in capsys.readouterr().err


@pytest.fixture
def no_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails when torchrun is about to start processes."""
    from launch import torchrun as module

    monkeypatch.setattr(module, "elastic_launch", lambda *_: pytest.fail("torchrun was started"))


def evaluations(run: Path) -> dict[int, float]:
    """The loss on the test rows by step. Fails when a step has two."""
    lines = [line for line in metrics(run) if "eval_loss" in line]
    loss_at = {line["step"]: line["eval_loss"] for line in lines}
    assert len(loss_at) == len(lines)
    return loss_at


def answers(run: Path) -> list[str]:
    return (run / "answers.jsonl").read_text().splitlines()


def contents(run: Path) -> dict[Path, bytes]:
    """The files of a run's checkpoints."""
    return {path: path.read_bytes() for path in run.glob("checkpoint-*/**/*") if path.is_file()}


def adapter(run: Path) -> dict[str, Any]:
    """The published weights by name."""
    from safetensors.torch import load_file

    return load_file(run / "adapter" / "adapter_model.safetensors")
