"""Conversations with tools, a developer's message and contents in parts: the same is trained as by trl."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_families import templates, tokenizer_of

from finetune.__main__ import main
from finetune.rows.data import load_conversations
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import Recipe, load_recipe

LAMPS = {
    "type": "function",
    "function": {
        "name": "lamps",
        "description": "count",
        "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}},
    },
}
SCARVES = {
    "type": "function",
    "function": {
        "name": "scarves",
        "description": "count",
        "parameters": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """The reply that calls a tool."""
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


# A table of these has keys that some of its messages lack.
ROWS = [
    {
        "messages": [
            {"role": "user", "content": "red lamp"},
            call("lamps", colour="red"),
            {"role": "tool", "name": "lamps", "content": "7"},
            {"role": "assistant", "content": "seven"},
        ],
        "tools": [LAMPS, SCARVES],
    },
    {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "wool"},
            call("scarves", size=4),
        ],
        "tools": [LAMPS, SCARVES],
    },
    {
        "messages": [{"role": "user", "content": "new desk"}, {"role": "assistant", "content": "ideal"}],
        "tools": None,
    },
]


def recipe_of(tiny: Path, tmp_path: Path, rows: list[Any], kind: str = "jsonl") -> Recipe:
    from datasets import Dataset

    if kind == "jsonl":
        (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        # As most tables are: tools as JSON, because each has parameters of its own.
        texts = [row | {"tools": row["tools"] and json.dumps(row["tools"])} for row in rows]
        Dataset.from_list(texts).to_parquet(tmp_path / "rows.parquet")
    data = {"files": [str(tmp_path / f"rows.{kind}")], "messages": "messages", "tools": "tools"}
    recipe = {"model": {"name": str(tiny / "text-model"), "precision": "fp32"}, "data": data, "lora": {}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return load_recipe(str(tmp_path / "recipe.yaml"))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(("name", "begins"), [("qwen3", "<think>\n\n</think>\n\n"), ("lfm2_2_5", "")])
def test_calls_of_tools_are_trained_and_what_tools_answer_is_not(
    name: str, begins: str, kind: str, tiny: Path, tmp_path: Path
) -> None:
    """Qwen 3 writes thoughts before the last turn alone, so that each of its replies is a row of its own."""
    tokenizer = tokenizer_of(templates()[name])
    rows, _ = load_conversations(recipe_of(tiny, tmp_path, ROWS, kind).data, 42)
    tokens = to_tokens(rows, tokenizer, None)
    replies, asked = [], []
    for ids, labels in zip(tokens["input_ids"], tokens["labels"], strict=True):
        asked.append(tokenizer.decode(ids))
        trained = tokenizer.decode([label for label in labels if label != NOT_TRAINED])
        replies += [f"{text}<|im_end|>" for text in trained.split("<|im_end|>")[:-1]]
    assert len(tokens) == (4 if begins else 3)
    called, seven, wool, ideal = (reply.removeprefix(begins) for reply in replies)
    assert [seven, ideal] == ["seven<|im_end|>", "ideal<|im_end|>"]
    assert "lamps" in called and "red" in called and "7" not in called
    assert "scarves" in wool and "4" in wool
    assert all(("scarves" in text and "lamps" in text) == ("new desk" not in text) for text in asked)
    assert not any("null" in text for text in asked)


def test_a_developer_and_contents_in_parts_are_trained(tiny: Path, tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "new "}, {"type": "text", "text": "lamp"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "warm light"}]},
    ]
    rows, _ = load_conversations(recipe_of(tiny, tmp_path, [{"messages": messages, "tools": None}]).data, 42)
    # gpt-oss knows a developer and takes texts. Qwen 3.5 takes parts.
    gpt = to_tokens(rows, tokenizer_of(templates()["gptoss"]), None)
    text = tokenizer_of(templates()["gptoss"]).decode(gpt["input_ids"][0])
    assert "Be kind." in text and "<|start|>user<|message|>new lamp<|end|>" in text
    assert text.endswith("<|message|>warm light<|return|>")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tools": "[{"}, "tools is no JSON"),
        ({"tools": "7"}, "tools must be a list of tools"),
        ({"messages": [*ROWS[0]["messages"][:1], ROWS[0]["messages"][2]]}, "not user tool"),
    ],
    ids=["half", "number", "no-call"],
)
def test_a_row_whose_tools_cannot_be_read_is_told_with_its_number(
    change: dict[str, Any], problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row | {"tools": json.dumps(row["tools"])} for row in ROWS]
    recipe_of(tiny, tmp_path, [rows[2], rows[2] | change])
    assert main(["local", f"--recipe={tmp_path}/recipe.yaml", "--dry-run"]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "row 1 (the first is 0)" in error and problem in error
