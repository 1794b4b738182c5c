"""A finished run keeps what its result gives to held-out replies, as a server of it must."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from finetune.__main__ import main
from finetune.model.loading import load_processor
from finetune.results.check import CHECK, LONGEST, ROWS
from finetune.storage.checkpoint import MARKER, RunFolder
from rehearsal.running_pods.tiny import SPECIAL_TOKENS, make_recipe


def kept(run: Path) -> list[dict[str, Any]]:
    return json.loads((run / CHECK).read_text())["rows"]


def given_by(model: Any, row: dict[str, Any]) -> torch.Tensor:
    """The logarithms of the probabilities of a reply's tokens."""
    tokens = torch.tensor([[*row["prompt"], *row["reply"]]])
    with torch.no_grad():
        logprobs = model.eval()(input_ids=tokens).logits[0].float().log_softmax(-1)
    places = range(len(row["prompt"]) - 1, tokens.shape[1] - 1)
    return torch.stack([logprobs[place, tokens[0, place + 1]] for place in places])


# Logits of these models come to 11. There bf16 has steps of 1/16, so a token of the same model may differ by
# one step, and by more where layers have rounded otherwise. Rounding goes both ways, so the mean stays small.
# Tried: a token 0.03 and a mean of 0.01 with the same weights, 4 and 2 with others.
TOKEN, MEAN = 0.25, 0.05


def same(model: Any, run: Path) -> bool:
    differences = [(given_by(model, row) - torch.tensor(row["logprobs"])).abs() for row in kept(run)]
    return all(float(row.max()) <= TOKEN and float(row.mean()) <= MEAN for row in differences)


@pytest.fixture(scope="module")
def adapter_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was trained on packs, asks for no answers, and has published the adapter alone."""
    store = tmp_path_factory.mktemp("adapter")
    recipe = make_recipe(
        store / "recipe.yaml", tiny, "gemma-3-1b-emoji", learning_rate=0.02, result="adapter"
    )
    held_out = ["--set=model.quantization=none", "--set=evaluation.rows=0", "--set=training.packing=true"]
    assert main(["local", f"--recipe={recipe}", f"--storage={store}", "--run=mine", *held_out]) == 0
    return store / "mine"


def test_a_merged_model_gives_the_kept_probabilities(sql_run: Path, tiny: Path) -> None:
    from transformers import AutoModelForImageTextToText

    rows = kept(sql_run)
    assert len(rows) == ROWS
    assert all(len(row["prompt"]) + len(row["reply"]) <= LONGEST for row in rows)
    load = AutoModelForImageTextToText.from_pretrained
    assert same(load(sql_run / "model", dtype="auto"), sql_run)


def test_base_and_adapter_give_the_kept_probabilities_and_the_base_alone_does_not(
    adapter_run: Path, tiny: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny / "text-model", dtype=torch.bfloat16)
    assert not same(base, adapter_run)
    assert same(PeftModel.from_pretrained(base, str(adapter_run / "adapter")), adapter_run)


def test_a_prompt_is_the_one_that_a_server_makes_of_the_messages(adapter_run: Path, tiny: Path) -> None:
    tokenizer = load_processor(str(tiny / "text-model"), pictures=False)
    for row in kept(adapter_run):
        asked = tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True, return_dict=True)
        assert asked["input_ids"] == row["prompt"]
        assert tokenizer.decode(row["reply"]).strip()


def test_rows_with_pictures_are_kept_without_them(tiny: Path, tmp_path: Path) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-4b-vision", batch_size=1)
    more = ["--set=data.rows=4", "--set=training.result=adapter"]
    assert main(["local", f"--recipe={recipe}", f"--storage={tmp_path}", "--run=mine", *more]) == 0
    rows = kept(tmp_path / "mine")
    assert len(rows) == ROWS
    picture = SPECIAL_TOKENS.index("<image_soft_token>")
    assert not any(picture in row["prompt"] for row in rows)


@pytest.fixture
def unfinished(emoji_run: Path, tmp_path: Path) -> Path:
    """A run that ended after its last checkpoint, before it published its result."""
    run = shutil.copytree(emoji_run, tmp_path / "mine")
    (run / MARKER).unlink()
    (run / CHECK).unlink()
    return run


def end(run: Path, emoji_run: Path) -> int:
    recipe = emoji_run.parent / "recipe.yaml"
    return main(["local", f"--recipe={recipe}", f"--storage={run.parent}", "--run=mine"])


def test_it_is_whole_before_the_run_is_finished(
    unfinished: Path, emoji_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    finish = RunFolder.finish

    def look(self: RunFolder, *arguments: Any) -> None:
        seen.extend(kept(unfinished))
        finish(self, *arguments)

    monkeypatch.setattr(RunFolder, "finish", look)
    assert end(unfinished, emoji_run) == 0
    assert len(seen) == ROWS


def test_a_problem_of_the_check_does_not_end_the_run(
    unfinished: Path, emoji_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("finetune.results.check._asked", fail)
    assert end(unfinished, emoji_run) == 0
    assert "no check.json for `operations verify`: out of memory" in capsys.readouterr().out
    assert not (unfinished / CHECK).exists()
    assert (unfinished / MARKER).exists()
