"""The merged model that a server loads, and the evaluation that is reported with it."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from outcomes import losses, metrics

from finetune.__main__ import main
from finetune.model.loading import load_model, load_processor
from finetune.results.merge import verify_model
from finetune.run.driver import Request
from finetune.settings.sections import Model
from finetune.storage.checkpoint import MARKER
from finetune.storage.folder import Folder
from rehearsal.running_pods.tiny import make_recipe

PROMPT = [{"role": "user", "content": "Translate to emoji: soft wool"}]


def again(run: Path, recipe: Path) -> int:
    return main(["local", "--recipe", str(recipe), "--storage", str(run.parent), "--run", run.name])


@pytest.fixture
def unfinished(emoji_run: Path, tmp_path: Path) -> Path:
    """A run that ended after its last checkpoint, before it published its result."""
    run = shutil.copytree(emoji_run, tmp_path / "mine")
    (run / MARKER).unlink()
    shutil.rmtree(run / "adapter")
    shutil.rmtree(run / "model")
    return run


def load(directory: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(directory, dtype="auto").eval()


def prompt_tokens(directory: Path) -> Any:
    tokenizer = load_processor(str(directory), pictures=False)
    return tokenizer.apply_chat_template(
        PROMPT, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )


def ask(model: Any, directory: Path) -> Any:
    """The logits after the prompt, in fp32."""
    import torch

    with torch.no_grad():
        return model(**prompt_tokens(directory)).logits[0].float()


def test_the_merged_model_has_all_that_a_server_needs(emoji_run: Path, tiny: Path) -> None:
    from safetensors import safe_open

    published, model = tiny / "text-model", emoji_run / "model"
    assert {path.name for path in model.iterdir()} == {path.name for path in published.iterdir()}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (model / name).read_bytes() == (published / name).read_bytes()
    config = json.loads((model / "config.json").read_text())
    assert config["architectures"] == ["Gemma3ForCausalLM"]
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config
    with (
        safe_open(model / "model.safetensors", "pt") as merged,
        safe_open(published / "model.safetensors", "pt") as base,
    ):
        names = list(merged.keys())
        assert sorted(names) == sorted(base.keys())
        assert {merged.get_slice(name).get_dtype() for name in names} == {"BF16"}


def test_the_merged_model_is_the_trained_one_with_its_4_bit_weights(emoji_run: Path, tiny: Path) -> None:
    """Not the published weights, on which the adapter was not trained."""
    import torch
    from peft import PeftModel

    def with_adapter(quantization: Any) -> Any:
        model = Model(name=str(tiny / "text-model"), quantization=quantization, precision="fp32")
        base = load_model(model, torch.device("cpu"))
        return ask(PeftModel.from_pretrained(base, str(emoji_run / "adapter")).eval(), tiny / "text-model")

    merged = ask(load(emoji_run / "model"), emoji_run / "model")
    trained, elsewhere = with_adapter("nf4"), with_adapter("none")
    assert (merged - trained).abs().mean() < 0.1 * (merged - elsewhere).abs().mean()


def test_the_merged_model_answers_and_stops_at_the_end_of_its_turn(emoji_run: Path) -> None:
    model, inputs = load(emoji_run / "model"), prompt_tokens(emoji_run / "model")
    tokenizer = load_processor(str(emoji_run / "model"), pictures=False)
    end = tokenizer.convert_tokens_to_ids("<end_of_turn>")
    asked = inputs["input_ids"].shape[1]
    reply = model.generate(**inputs, max_new_tokens=8, do_sample=False)[0, asked:]
    assert 1 <= len(reply) <= 8

    def end_the_turn(ids: Any, scores: Any) -> Any:
        return scores.index_fill(1, ids.new_tensor([end]), 1e4)

    stopped = model.generate(**inputs, max_new_tokens=8, do_sample=False, logits_processor=[end_the_turn])
    assert stopped[0, asked:].tolist() == [end]


def test_the_marker_lists_what_lies_there_and_how_the_model_did(emoji_run: Path) -> None:
    marker = json.loads((emoji_run / MARKER).read_text())
    for name in ("adapter", "model"):
        assert marker[name] == {path.name: path.stat().st_size for path in (emoji_run / name).iterdir()}
    assert marker["evaluation"] == metrics(emoji_run)[-1]
    assert marker["steps"] == len(losses(emoji_run)) == marker["evaluation"]["step"]


def test_a_packed_run_cut_off_by_a_signal_goes_on_as_if_nothing_had_been(
    emoji_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Cloud Run ends a task and retries it."""
    from finetune import local_driver

    recipe, requested = emoji_run.parent / "recipe.yaml", local_driver.LocalDriver.requested
    asked: list[int] = []

    def terminate(driver: local_driver.LocalDriver) -> Request:
        asked.append(1)
        if len(asked) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return requested(driver)

    with monkeypatch.context() as patch:
        patch.setattr(local_driver.LocalDriver, "requested", terminate)
        assert again(tmp_path / "mine", recipe) == 143
    assert not (tmp_path / "mine" / "model").exists()
    assert again(tmp_path / "mine", recipe) == 0
    assert losses(tmp_path / "mine") == pytest.approx(losses(emoji_run), abs=1e-5)
    evaluations = [
        [line for line in metrics(run) if "eval_loss" in line] for run in (tmp_path / "mine", emoji_run)
    ]
    assert evaluations[0] == [pytest.approx(evaluations[1][0], abs=1e-4)]


def test_a_finished_run_is_left_alone_and_says_where_the_model_is(
    emoji_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in emoji_run.rglob("*")}
    assert again(emoji_run, emoji_run.parent / "recipe.yaml") == 0
    assert f"is finished already, its model is in {emoji_run}/model" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in emoji_run.rglob("*")} == before


@pytest.mark.parametrize("lost", ["model/model.safetensors", MARKER])
def test_an_upload_cut_off_is_not_taken_for_whole_and_the_next_start_finishes_it(
    lost: str, unfinished: Path, emoji_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the middle of the model, and between model and marker.

    An earlier attempt left a file.
    """
    recipe = emoji_run.parent / "recipe.yaml"
    (unfinished / "model").mkdir()
    (unfinished / "model" / "model-00001-of-00002.safetensors").write_bytes(b"half")
    upload, write_text = Folder.upload, Folder.write_text

    def lose_upload(folder: Folder, source: Path, name: str) -> None:
        if name == lost:
            raise ConnectionError("connection lost")
        upload(folder, source, name)

    def lose_text(folder: Folder, name: str, text: str, **options: bool) -> None:
        if name == lost:
            raise ConnectionError("connection lost")
        write_text(folder, name, text, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "upload", lose_upload)
        patch.setattr(Folder, "write_text", lose_text)
        assert again(unfinished, recipe) == 1
    assert not (unfinished / MARKER).exists()
    assert again(unfinished, recipe) == 0
    assert {path.name: path.read_bytes() for path in (unfinished / "model").iterdir()} == {
        path.name: path.read_bytes() for path in (emoji_run / "model").iterdir()
    }
    assert losses(unfinished) == losses(emoji_run)


def test_a_model_that_fails_its_trial_is_not_published(
    unfinished: Path,
    emoji_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from transformers import PreTrainedModel

    save = PreTrainedModel.save_pretrained
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", lambda self, to: save(self.float(), to))
    assert again(unfinished, emoji_run.parent / "recipe.yaml") == 2
    assert "is in ['F32'], not bf16" in capsys.readouterr().err
    assert not (unfinished / MARKER).exists()
    assert not (unfinished / "model").exists()


@pytest.fixture
def merged(emoji_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(emoji_run / "model", tmp_path / "model")


def verify(merged: Path, tiny: Path) -> None:
    import torch

    verify_model(merged, tiny / "text-model", torch.device("cpu"))


def change_weights(merged: Path, change: Any) -> None:
    from safetensors.torch import load_file, save_file

    file = merged / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})


def test_a_whole_model_passes_its_trial(merged: Path, tiny: Path) -> None:
    verify(merged, tiny)


def test_a_model_without_one_of_its_weights_fails_its_trial(merged: Path, tiny: Path) -> None:
    change_weights(merged, lambda weights: weights.pop("model.norm.weight"))
    with pytest.raises(RuntimeError, match=r"lacks weights: \['model\.norm\.weight'\]"):
        verify(merged, tiny)


def test_a_model_with_a_weight_that_is_no_number_fails_its_trial(merged: Path, tiny: Path) -> None:
    change_weights(merged, lambda weights: weights["model.norm.weight"].fill_(float("nan")))
    with pytest.raises(RuntimeError, match="not finite"):
        verify(merged, tiny)


def test_a_model_that_would_not_stop_fails_its_trial(merged: Path, tiny: Path) -> None:
    file = merged / "generation_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "eos_token_id": 1}))
    with pytest.raises(RuntimeError, match=r"would not stop: its replies end with token 5"):
        verify(merged, tiny)


def test_a_finished_adapter_is_merged_by_a_command_as_the_run_does_it(
    emoji_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["merge", str(emoji_run), "model"]) == 0
    merged, expected = (
        {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in (tmp_path / "model", emoji_run / "model")
    )
    assert merged == expected
    assert load(tmp_path / "model").config.architectures == ["Gemma3ForCausalLM"]


@pytest.mark.parametrize(
    ("damage", "output", "message"),
    [
        (lambda run: (run / MARKER).unlink(), "model", "mine is no finished run, or has no adapter"),
        (lambda run: (run / "run.json").unlink(), "model", "mine is no folder of a run: it has no run.json"),
        (
            lambda run: (run / "adapter" / "adapter_config.json").write_text("{"),
            "model",
            "adapter/adapter_config.json in ",
        ),
        (
            lambda run: (run / "adapter" / "adapter_config.json").unlink(),
            "model",
            "is not what was published",
        ),
        (lambda _: None, ".", "exists; name a folder that does not"),
    ],
)
def test_what_cannot_be_merged_is_one_line(
    damage: Callable[[Path], Any],
    output: str,
    message: str,
    emoji_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(shutil.copytree(emoji_run, tmp_path / "mine"))
    assert main(["merge", str(tmp_path / "mine"), str(tmp_path / output)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "model").exists()


def test_evaluation_is_made_on_the_way_and_at_the_end_and_is_in_the_metrics(sql_run: Path) -> None:
    steps = len(losses(sql_run))
    evaluations = [line for line in metrics(sql_run) if "eval_loss" in line]
    assert [line["step"] for line in evaluations] == [*range(5, steps, 5), steps]
    assert evaluations[-1]["eval_loss"] < evaluations[0]["eval_loss"]
    assert json.loads((sql_run / MARKER).read_text())["evaluation"] == evaluations[-1]


def test_the_adapter_of_a_text_run_loads_on_the_model_as_it_is_published(sql_run: Path, tiny: Path) -> None:
    """vLLM loads the model that takes pictures. With the adapter on it, it equals the merged model."""
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    base = AutoModelForImageTextToText.from_pretrained(tiny / "model").eval()
    assert type(base).__name__ == "Gemma3ForConditionalGeneration"
    before = ask(base, tiny / "model")
    after = ask(PeftModel.from_pretrained(base, str(sql_run / "adapter")).eval(), tiny / "model")
    merged = ask(load(sql_run / "model"), sql_run / "model")
    assert (after - before).abs().mean() > 0.1
    assert (after - merged).abs().mean() < 0.1 * (after - before).abs().mean()


def test_a_merged_model_with_pictures_keeps_its_names_and_its_processor(sql_run: Path, tiny: Path) -> None:
    from safetensors import safe_open
    from transformers import AutoProcessor

    with (
        safe_open(sql_run / "model" / "model.safetensors", "pt") as merged,
        safe_open(tiny / "model" / "model.safetensors", "pt") as base,
    ):
        assert sorted(merged.keys()) == sorted(base.keys())
    assert type(AutoProcessor.from_pretrained(sql_run / "model")).__name__ == "Gemma3Processor"


def test_the_end_of_a_run_merges_the_model_that_it_has_in_memory(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same bytes as a merge of the published adapter into the published base model."""
    from finetune.results import merge

    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", batch_size=1)
    with monkeypatch.context() as patch:
        patch.setattr(merge, "load_model", pytest.fail)
        assert again(tmp_path / "mine", recipe) == 0
    assert main(["merge", str(tmp_path / "mine"), str(tmp_path / "anew")]) == 0
    for file in (tmp_path / "mine/model").iterdir():
        assert file.read_bytes() == (tmp_path / "anew" / file.name).read_bytes(), file.name
