"""Rows and recipes as people publish them: calls as text, marks of bad replies, odd names, merged keys."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from published import FAMILIES, changed, make_published
from test_published import FEW, recipe_of, start
from tiny_families import templates, tokenizer_of

from finetune.settings.recipe import load_recipe
from shared.errors import InputError
from shared.recipe_file import RecipeError


def call(arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "book", "arguments": arguments}
    return [
        {"role": "user", "content": "a table"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "abcdefghi", "type": "function", "function": function}],
        },
    ]


def rows_of(tmp_path: Path, conversations: list[list[dict[str, Any]]], name: str = "rows.jsonl") -> None:
    lines = [json.dumps({"messages": conversation}) for conversation in conversations]
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))


def recipe_with(tmp_path: Path, tiny: Path, template: str = "qwen3", name: str = "rows.jsonl") -> Path:
    """A recipe for conversations in a file beside it."""
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    tokenizer_of(templates()[template]).save_pretrained(model)
    path = recipe_of(model, tiny, tmp_path, evaluation={"rows": 0})
    tree = yaml.safe_load(path.read_text())
    tree["data"] = {"files": [name], "messages": "messages"}
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize("arguments", ['{"when": "soon"}', "", '{"when": {"day": 1}}'])
def test_arguments_as_text_are_the_object_that_they_say(arguments: str) -> None:
    """The form of OpenAI. Templates would write it as a text within a text."""
    from finetune.settings.sections import Data

    reply = Data(name="a/b", messages="messages").conversation({"messages": call(arguments)}).turns[-1]
    assert reply["tool_calls"][0]["function"]["arguments"] == json.loads(arguments or "{}")


@pytest.mark.parametrize("arguments", ["soon", "[1]", "{"])
def test_arguments_that_are_no_object_stay(arguments: str) -> None:
    from finetune.settings.sections import Data

    reply = Data(name="a/b", messages="messages").conversation({"messages": call(arguments)}).turns[-1]
    assert reply["tool_calls"][0]["function"]["arguments"] == arguments


def test_a_call_is_in_the_text_of_every_template_or_refused() -> None:
    from conversations.chat_template import ChatTemplate
    from finetune.settings.sections import Data

    row = {"messages": call('{"when": "soon"}')}
    conversation = Data(name="a/b", messages="messages").conversation(row).turns
    for name, template in templates().items():
        tokenizer = tokenizer_of(template)
        try:
            row = ChatTemplate(tokenizer).row(conversation)
        except InputError:
            continue
        tokens = [token for token, is_trained in zip(row.tokens, row.trained, strict=True) if is_trained]
        trained = tokenizer.decode(tokens)
        assert "book" in trained and "soon" in trained and '\\"' not in trained, name


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_a_call_that_the_template_does_not_write_is_refused(
    more: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of(tmp_path, [call({"when": "soon"})])
    assert start(recipe_with(tmp_path, tiny, "gemma3"), *more) == 2
    problem = "does not write calls of tools: book is not in its text"
    assert problem in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("reply", "how", "shown"),
    [
        (
            {"content": "b"},
            "have no thoughts: the run trains without",
            ('<think>\\n\\n</think>\\n\\n"', '"b<'),
        ),
        ({"content": "b", "reasoning_content": "Hm."}, "", ('<think>\\n"', '"Hm.\\n</think>\\n\\nb<')),
        ({"content": "<think>Hm.</think>b"}, "", ('<think>\\n"', '"Hm.\\n</think>\\n\\nb<')),
    ],
    ids=["none", "key", "text"],
)
def test_rows_are_trained_behind_the_prompt_for_their_thoughts(
    reply: dict[str, str],
    how: str,
    shown: tuple[str, str],
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows_of(tmp_path, [[{"role": "user", "content": "a"}, {"role": "assistant", **reply}]])
    assert start(recipe_with(tmp_path, tiny, "qwen3_6"), "--dry-run") == 0
    printed = capsys.readouterr().out
    prompt, trained = [line for line in printed.splitlines() if line.startswith(("  prompt", "  trained"))][
        :2
    ]
    assert prompt.endswith(shown[0]) and trained.startswith(f"  trained {shown[1]}")
    assert "warning" not in printed
    assert (f"the rows {how} thoughts, and the chat template" in printed) == bool(how)


@pytest.mark.parametrize(("template", "rows"), [("qwen3", 6), ("qwen3_instruct_2507", 3)])
def test_replies_are_rows_of_their_own_where_a_template_rewrites_earlier_turns(
    template: str, rows: int, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in packs, behind the beginning that all of them share."""
    talk = [
        {"role": role, "content": text} for role, text in zip(["user", "assistant"] * 2, "abcd", strict=True)
    ]
    rows_of(tmp_path, [talk] * 3)
    packs = ["--set=training.packing=true", "--set=training.max_length=300"]
    assert start(recipe_with(tmp_path, tiny, template), "--dry-run", *packs) == 0
    printed = capsys.readouterr().out
    assert ("3 conversations are 6 rows: the chat template writes earlier turns" in printed) == (rows == 6)
    assert f"rows       {rows} of" in printed
    trained = [line for line in printed.splitlines() if line.startswith("  trained")]
    assert [line.split('"')[1][0] for line in trained] == ["b", "d"]


@pytest.mark.parametrize("mark", [{"weight": 0}, {"train": False}, {"trainable": False}, {"loss_mask": 0.0}])
def test_a_reply_that_its_file_marks_is_not_trained(
    mark: dict[str, Any], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, right = {"role": "user", "content": "warm"}, {"role": "assistant", "content": "soft wool"}
    wrong = {"role": "assistant", "content": "steel desk", **mark}
    rows_of(tmp_path, [[ask, wrong, ask, right], [ask, right], [ask, wrong]])
    recipe = recipe_with(tmp_path, tiny, "qwen3_instruct_2507")
    assert start(recipe, "--dry-run", "--set=data.most_left_out=0.4") == 0
    printed = capsys.readouterr().out
    (trained,) = [line for line in printed.splitlines() if line.startswith("  trained")]
    assert "soft wool" in trained and "steel desk" not in trained
    assert "steel desk" in printed
    assert "1 of 3 rows are left out" in printed


def test_a_weight_between_none_and_all_is_refused(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of(
        tmp_path, [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0.5}]]
    )
    assert start(recipe_with(tmp_path, tiny), "--dry-run") == 2
    problem = "row 0 (the first is 0): a reply has weight 0.5, and a run knows 0, not trained, and 1"
    assert problem in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", ["my rows [v2].jsonl", "a*b.jsonl", "what?.jsonl"])
def test_a_file_is_read_by_its_name_and_no_other(
    name: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows_of(tmp_path, [talk] * 3, name)
    for other in ("my rows v.jsonl", "axb.jsonl", "whatx.jsonl"):
        rows_of(tmp_path, [talk] * 50, other)
    assert start(recipe_with(tmp_path, tiny, name=name), "--dry-run") == 0
    assert "rows       3 of" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_several_templates_without_a_default_are_named(
    more: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of(tmp_path, [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]])
    recipe = recipe_with(tmp_path, tiny)
    text = (tmp_path / "model/chat_template.jinja").read_text()
    (tmp_path / "model/chat_template.jinja").unlink()
    named = [{"name": name, "template": text} for name in ("rag", "chat")]
    changed(tmp_path / "model", "tokenizer_config.json", chat_template=named)
    assert start(recipe, *more) == 2
    problem = "the model has several chat templates and none named default: chat, rag"
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_keys_are_merged_and_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    text = """
x-usual: &usual {epochs: 2, batch_size: 3}
model: {name: a/b}
data: {name: c/d, prompt: "{a}", reply: b}
training:
  <<: *usual
  batch_size: 4
"""
    (tmp_path / "recipe.yaml").write_text(text)
    training = load_recipe(str(tmp_path / "recipe.yaml")).training
    assert (training.epochs, training.batch_size) == (2, 4)
    (tmp_path / "recipe.yaml").write_text(f"{text}  batch_size: 5\n")
    with pytest.raises(RecipeError, match="key 'batch_size' is given twice"):
        load_recipe(str(tmp_path / "recipe.yaml"))
