"""The result of a finished run goes to the Hub, where the recipe asks for it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe

if TYPE_CHECKING:
    from finetune.settings.recipe import Recipe
    from rehearsal.stand_ins.hub import Hub


@pytest.fixture
def command(hub: "Hub", tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    hub.tokens["hf_write"] = set()
    monkeypatch.setenv("HF_TOKEN", "hf_write")
    more = {"batch_size": 1, "push_to_hub": True, "hub_model_id": "me/mine"}
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", **more)
    return ["local", f"--recipe={recipe}", f"--storage={tmp_path}", "--run=mine"]


def test_a_push_that_fails_after_the_training_is_all_that_the_next_start_does(
    command: list[str], hub: "Hub", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Hub is down, then the token may not write there."""
    trained = set[str]()
    for status, code in ((503, 1), (403, 2)):
        hub.refusal = lambda path, status=status: (status, {}) if path == "/api/repos/create" else None
        assert main(command) == code
        (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert error.startswith("error: run mine is finished, and its model is not pushed to me/mine: ")
        assert "HF_TOKEN must be allowed to write" in error and "hf_write" not in error
        trained.add((tmp_path / "mine" / "attempt.json").read_text())
    hub.refusal = lambda _: None
    assert main(command) == 0
    assert "its model is pushed to https://huggingface.co/me/mine/commit/" in capsys.readouterr().out
    model = tmp_path / "mine" / "model"
    assert hub.model("me/mine").pushed == {path.name: path.read_bytes() for path in model.iterdir()}
    assert hub.model("me/mine").private
    assert json.loads((tmp_path / "mine" / "pushed.json").read_text())["model"] == "me/mine"
    hub.requests.clear()
    assert main(command) == 0
    assert not hub.requests
    assert trained == {(tmp_path / "mine" / "attempt.json").read_text()}


@pytest.mark.parametrize(
    ("setting", "token", "message"),
    [
        ("hub_model_id=null", "hf_write", "training.push_to_hub needs training.hub_model_id, OWNER/NAME"),
        ("hub_model_id=me/mine", "", "training.push_to_hub needs a token that may write, in HF_TOKEN"),
    ],
)
def test_a_push_that_cannot_be_ends_the_run_before_it_trains(
    setting: str,
    token: str,
    message: str,
    command: list[str],
    trained: "list[Recipe]",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    assert main([*command, f"--set=training.{setting}"]) == 2
    assert message in capsys.readouterr().err
    assert not trained
