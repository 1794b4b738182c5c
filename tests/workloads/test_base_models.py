"""Base models: a borrowed chat template, and plain texts of which every token is trained."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from tiny_families import templates

from conversations.chat_template import ChatTemplate
from conversations.texts import chunks_of
from finetune.__main__ import main
from finetune.model.loading import load_processor
from finetune.rows.data import load_conversations
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import Recipe, load_recipe
from finetune.settings.templates import TemplateName, template_text
from rehearsal.running_pods.tiny import make_trainer
from shared.recipe_file import RecipeError

PAIRS = {"reply": "emoji", "prompt": "Translate to emoji: {text}"}
TEXTS = {"text": "text"}


@pytest.fixture
def base(tiny: Path, tmp_path: Path) -> Path:
    """A model as base models are published: without a chat template, and it stops where a text ends."""
    folder = shutil.copytree(tiny / "text-model", tmp_path / "base")
    (folder / "chat_template.jinja").unlink()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    return folder


def recipe_of(base: Path, tiny: Path, data: dict[str, Any], **sections: Any) -> Path:
    recipe: dict[str, Any] = {
        "model": {"name": str(base), "precision": "fp32"},
        "lora": {"rank": 4},
        "data": {"name": str(tiny / "emoji"), "rows": 12, "test_rows": 4, **data},
        "training": {
            "packing": True,
            "max_length": 200,
            "gradient_checkpointing": False,
            "loader_processes": 0,
            "learning_rate": 0.01,
            "log_every_steps": 1,
            "result": "model",
        },
    }
    for name, section in sections.items():
        recipe[name] = section if section is None else recipe.get(name, {}) | section
    path = base.parent / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def start(recipe: Path, *more: str) -> int:
    return main(["local", f"--recipe={recipe}", f"--storage={recipe.parent}/store", "--run=mine", *more])


def test_the_names_of_templates_are_those_that_trl_ships() -> None:
    assert set(get_args(TemplateName)) == set(templates())
    assert template_text("gemma3") == templates()["gemma3"]


def test_a_conversation_without_a_template_is_refused_with_both_ways_out(
    base: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(base, tiny, PAIRS)
    for more in ([], ["--dry-run"]):
        assert start(recipe, *more) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert "has no chat template" in error and "model.chat_template" in error
        assert "instruction-tuned" in error


@pytest.mark.parametrize("weights", ["adapter", "all"])
def test_a_borrowed_template_is_trained_judged_and_published(weights: str, base: Path, tiny: Path) -> None:
    sections: dict[str, Any] = {"model": {"chat_template": "gemma3"}, "evaluation": {"rows": 2}}
    recipe = recipe_of(base, tiny, PAIRS, **sections, **({"lora": None} if weights == "all" else {}))
    assert start(recipe) == 0
    run = base.parent / "store/mine"
    assert len((run / "answers.jsonl").read_text().splitlines()) == 2
    for result in load_recipe(str(recipe)).results:
        assert (run / result / "chat_template.jinja").read_text() == template_text("gemma3")
    asked = [{"role": "user", "content": "a b"}]
    served = ChatTemplate(load_processor(str(run / "model"), pictures=False))
    trained = ChatTemplate(load_processor(str(base), pictures=False, template="gemma3"))
    assert served.prompt(asked) == trained.prompt(asked)
    # A server of the result stops where a reply ends.
    ends = json.loads((run / "model/generation_config.json").read_text())["eos_token_id"]
    tokenizer = load_processor(str(base), pictures=False)
    assert ends == [1, tokenizer.convert_tokens_to_ids("<end_of_turn>")]


def test_an_unknown_template_is_refused_when_the_recipe_is_read(base: Path, tiny: Path) -> None:
    recipe = recipe_of(base, tiny, PAIRS, model={"chat_template": "gemma-3"})
    with pytest.raises(RecipeError, match=r"model\.chat_template"):
        load_recipe(str(recipe))


def test_chunks_have_every_token_after_another_one_once() -> None:
    for count in range(2, 40):
        for length in range(2, 12):
            chunks = chunks_of([*range(count)], length)
            assert [token for chunk in chunks for token in chunk[1:]] == [*range(1, count)]
            assert all(before[-1] == chunk[0] for before, chunk in pairwise(chunks))
            assert max(map(len, chunks)) <= length


def texts_of(base: Path, tiny: Path, *more: str) -> tuple[Recipe, Any, Any]:
    recipe = load_recipe(str(recipe_of(base, tiny, TEXTS)), more)
    tokenizer = load_processor(str(base), pictures=False)
    rows, _ = load_conversations(recipe.data, 42)
    return recipe, tokenizer, rows


def test_every_token_of_a_text_is_trained_with_one_token_at_each_end(base: Path, tiny: Path) -> None:
    _, tokenizer, rows = texts_of(base, tiny)
    tokens = to_tokens(rows, tokenizer, 200)
    assert len(tokens) == len(rows)
    for row, text in zip(tokens, rows, strict=True):
        ids = row["input_ids"]
        assert ids == tokenizer(text["text"])["input_ids"] + [tokenizer.eos_token_id]
        assert (ids.count(tokenizer.bos_token_id), ids.count(tokenizer.eos_token_id)) == (1, 1)
        assert row["labels"] == [NOT_TRAINED, *ids[1:]]


def test_packed_texts_have_the_loss_of_each_chunk_alone(base: Path, tiny: Path, tmp_path: Path) -> None:
    """With no beginning in common, and none that sees another."""
    import torch
    from transformers import AutoModelForCausalLM

    recipe, tokenizer, _ = texts_of(base, tiny, "training.max_length=12")
    _, test_rows = load_conversations(recipe.data, 42)
    assert test_rows is not None
    trainer = make_trainer(recipe, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(base)
    losses = []
    with torch.no_grad():
        for row in to_tokens(test_rows, tokenizer, 12).with_format("torch"):
            scores = model(row["input_ids"][None]).logits[0, :-1]
            losses.append(torch.nn.functional.cross_entropy(scores, row["labels"][1:], reduction="none"))
    assert len(losses) > len(test_rows)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(torch.cat(losses).mean()), abs=2e-6)


@pytest.mark.parametrize("weights", ["adapter", "all"])
def test_a_run_of_texts_ends_with_a_model_without_a_chat_template(
    weights: str, base: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"lora": None} if weights == "all" else {}
    recipe = recipe_of(base, tiny, TEXTS, training={"max_length": 12}, **more)
    assert start(recipe, "--dry-run") == 0
    out = capsys.readouterr().out
    assert f"of {tiny}/emoji, 4 texts held out" in out and "chunks  " in out
    assert start(recipe) == 0
    run = base.parent / "store/mine"
    assert not (run / "model/chat_template.jinja").exists()
    complete = json.loads((run / "COMPLETE.json").read_text())
    assert complete["evaluation"]["eval_loss"] > 0 and complete["answers"] is None
    rows = json.loads((run / "check.json").read_text())["rows"]
    assert [(row["messages"], len(row["prompt"])) for row in rows] == [([], 1)] * 3
    assert all(row["reply"] and len(row["reply"]) == len(row["logprobs"]) for row in rows)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "answers": (
        {"evaluation": {"rows": 2}},
        "evaluation.rows asks for answers, and data.text has no prompts",
    ),
    "length": ({"training": {"packing": False, "max_length": None}}, "data.text needs training.max_length"),
    "template": ({"model": {"chat_template": "gemma3"}}, "model.chat_template writes conversations"),
    "prompt": (PAIRS, "data.text are texts without prompts"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_with_texts_is_refused(case: str, base: Path, tiny: Path) -> None:
    sections, problem = REFUSED[case]
    more = {"data": {**TEXTS, **PAIRS}} if sections is PAIRS else {"data": TEXTS, **sections}
    with pytest.raises(RecipeError, match=problem):
        load_recipe(str(recipe_of(base, tiny, more.pop("data"), **more)))
