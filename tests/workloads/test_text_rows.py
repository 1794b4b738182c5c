"""The tokens of a row of text, which of them are trained, and which rows are drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

from finetune.rows.data import load_conversations
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import Recipe, load_recipe
from rehearsal.running_pods.tiny import make_recipe, make_trainer
from shared.errors import InputError

SHIPPED = ["gemma-3-1b-emoji", "gemma-3-12b-text-to-sql"]


def recipe_of(tiny: Path, tmp_path: Path, shipped: str, *overrides: str) -> Recipe:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, shipped)
    return load_recipe(str(recipe), ["lora.dropout=0", *overrides])


@pytest.fixture(params=SHIPPED)
def packed(request: pytest.FixtureRequest, tiny: Path, tmp_path: Path) -> Any:
    """A trainer of a text recipe, on the text model and on the vision model."""
    return make_trainer(recipe_of(tiny, tmp_path, request.param), tmp_path)


def sequences(trainer: Any, dataset: Any) -> list[tuple[str, str]]:
    """Text and trained text of each row, without the prefix, which stands once in front of the batch."""
    decode = trainer.processing_class.decode
    rows = []
    for pack in dataset:
        batch = trainer.data_collator([pack])
        (ids,), (labels,) = batch["input_ids"].tolist(), batch["labels"].tolist()
        prefix, *ends = batch["cu_seq_lens_q"].tolist()
        assert ends[-1] == len(ids) == len(labels) <= trainer.args.max_length + prefix
        for start, end in zip([prefix, *ends], ends, strict=False):
            row = decode(ids[:prefix] + ids[start:end])
            rows.append((row, decode([label for label in labels[start:end] if label != NOT_TRAINED])))
            assert batch["position_ids"][0, start:end].tolist() == list(range(prefix, prefix + end - start))
    return rows


def drawn(recipe: Recipe) -> list[dict[str, Any]]:
    """The rows of a recipe as the tutorials draw them."""
    from datasets import load_dataset

    dataset = load_dataset(recipe.data.name, split="train").shuffle(seed=recipe.training.seed)
    return list(dataset.select(range((recipe.data.limit or 0) + recipe.data.test_rows)))


def test_an_emoji_row_is_asked_as_the_served_model_is_and_answers_in_emoji(
    tiny: Path, tmp_path: Path
) -> None:
    recipe = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji")
    rows, _ = load_conversations(recipe.data, 42)
    for row, raw in zip(rows, drawn(recipe), strict=False):
        assert row["prompt"] == [{"role": "user", "content": f"Translate to emoji: {raw['text']}"}]
        assert row["completion"] == [{"role": "assistant", "content": raw["emoji"]}]


def test_a_sql_row_has_the_instruction_the_whole_schema_and_question_and_the_whole_sql(
    tiny: Path, tmp_path: Path
) -> None:
    recipe = recipe_of(tiny, tmp_path, "gemma-3-12b-text-to-sql")
    rows, _ = load_conversations(recipe.data, 42)
    for row, raw in zip(rows, drawn(recipe), strict=False):
        system, user = row["prompt"]
        assert system["content"].startswith("You are a text to SQL query translator.")
        assert f"<SCHEMA>\n{raw['sql_context']}\n</SCHEMA>" in user["content"]
        assert f"<USER_QUERY>\n{raw['sql_prompt']}\n</USER_QUERY>" in user["content"]
        assert row["completion"] == [{"role": "assistant", "content": raw["sql"]}]


def test_every_row_is_there_once_and_whole_with_one_bos_and_only_its_reply_is_trained(packed: Any) -> None:
    rows = sequences(packed, packed.train_dataset)
    assert len(rows) == 24
    assert len({text for text, _ in rows}) == 24
    for text, trained in rows:
        assert text.count("<bos>") == 1
        assert text.startswith("<bos><start_of_turn>user\n")
        assert text.rstrip().endswith("<end_of_turn>")
        reply = text.split("<start_of_turn>model\n")[1]
        # The model stops at <end_of_turn>. Only the template writes the newline behind it.
        assert f"{trained}\n" == reply
        assert trained.removesuffix("<end_of_turn>") and "<" not in trained.removesuffix("<end_of_turn>")


def test_rows_are_packed_and_the_held_out_ones_too(packed: Any) -> None:
    assert len(packed.train_dataset) < 24
    assert max(len(pack["seq_lengths"]) for pack in packed.train_dataset) > 1
    trained = {text for text, _ in sequences(packed, packed.train_dataset)}
    held_out = {text for text, _ in sequences(packed, packed.eval_dataset)}
    assert len(held_out) == 6
    assert not trained & held_out


@pytest.mark.parametrize("changed", ["max_length=160", "max_length=96", "packing=false"])
def test_an_evaluation_is_the_average_over_all_reply_tokens_whatever_the_packs(
    changed: str, tiny: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    recipe = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji", f"training.{changed}")
    trainer = make_trainer(recipe, tmp_path)
    evaluation = trainer.evaluate()
    test_rows = load_conversations(recipe.data, recipe.training.seed)[1]
    assert test_rows is not None
    alone = AutoModelForCausalLM.from_pretrained(recipe.model.name)
    losses, right = [], []
    for row in to_tokens(test_rows, trainer.processing_class, None).with_format("torch"):
        trained = row["labels"][1:] != NOT_TRAINED
        scores, replies = (
            alone(row["input_ids"][None]).logits[0, :-1][trained],
            row["labels"][1:][trained].long(),
        )
        losses.append(torch.nn.functional.cross_entropy(scores, replies, reduction="none"))
        right.append((scores.argmax(-1) == replies).float())
    assert evaluation["eval_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-5)
    assert evaluation["eval_mean_token_accuracy"] == pytest.approx(float(torch.cat(right).mean()))


def test_the_draw_is_the_same_for_every_process_and_another_with_another_seed(
    tiny: Path, tmp_path: Path
) -> None:
    data = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji").data

    def draw(seed: int) -> list[str]:
        return [str(row) for part in load_conversations(data, seed) for row in part or ()]

    assert draw(42) == draw(42)
    assert len(set(draw(42))) == 30
    assert draw(42) != draw(43)


def with_rows(tiny: Path, tmp_path: Path, table: list[dict[str, Any]], **changes: Any) -> Recipe:
    """The emoji recipe on a data set of its own."""
    from datasets import Dataset

    (tmp_path / "own").mkdir()
    Dataset.from_list(table).to_parquet(tmp_path / "own" / "train.parquet")
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    overrides = [f"data.name={tmp_path}/own", *(f"data.{key}={value}" for key, value in changes.items())]
    return load_recipe(str(recipe), overrides)


def test_a_row_without_text_or_without_reply_is_left_out_and_counted(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [
        {"text": "soup", "emoji": "🥣"},
        {"text": None, "emoji": "🥣"},
        {"text": "sun", "emoji": None},
        {"text": "rain", "emoji": " "},
        {"text": "dog", "emoji": "🐶"},
    ]
    recipe = with_rows(tiny, tmp_path, table, rows="null", test_rows=1, most_left_out=1)
    train, test = load_conversations(recipe.data, 42)
    assert test is not None
    assert sorted(row["completion"][0]["content"] for row in [*train, *test]) == ["🐶", "🥣"]
    assert "3 of 5 rows are left out: a text that the recipe needs is empty\n" in capsys.readouterr().out


def test_a_zero_is_no_gap(tiny: Path, tmp_path: Path) -> None:
    recipe = with_rows(tiny, tmp_path, [{"text": 0, "emoji": "🥣"}], rows="null", test_rows=0)
    train, _ = load_conversations(recipe.data, 42)
    assert train[0]["prompt"][-1]["content"] == "Translate to emoji: 0"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_nan_in_a_column_of_numbers_is_a_gap_in_every_kind_of_file(
    kind: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from datasets import Dataset

    recipe = with_rows(tiny, tmp_path, [], rows="null", test_rows=0, most_left_out=1)
    rows = [{"text": 7.5, "emoji": "🥣"}, {"text": float("nan"), "emoji": "🐶"}, {"text": 8.0, "emoji": "🐱"}]
    (tmp_path / "own" / "train.parquet").unlink()
    if kind == "jsonl":
        (tmp_path / "own" / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        Dataset.from_list(rows).to_parquet(tmp_path / "own" / "train.parquet")
    train, _ = load_conversations(recipe.data, 42)
    assert [row["completion"][0]["content"] for row in train] == ["🥣", "🐱"]
    assert "1 of 3 rows are left out: a text that the recipe needs is empty\n" in capsys.readouterr().out


SOUP = '{"text": "soup", "emoji": "🥣"}\n'


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b"", "has no rows in split train"),
        (
            SOUP.encode() + '{"text": "café", "emoji": "a"}'.encode("latin-1"),
            "train.jsonl line 2 is not UTF-8",
        ),
        (SOUP.encode("utf-16"), "line 1 is not UTF-8: the file is UTF-16"),
        (
            SOUP.encode() + b'{"text": "a \\ud83d", "emoji": "a"}',
            "row 1 (the first is 0) has half a surrogate pair",
        ),
        (SOUP.encode() + b'{"text": "dog", "emo', "row 1 (the first is 0) is no JSON: Unterminated"),
    ],
    ids=["empty", "latin-1", "utf-16", "surrogate", "half"],
)
def test_a_file_that_holds_no_rows_of_text_is_told_with_its_row_in_one_line(
    lines: bytes, problem: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from finetune.__main__ import main

    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train.jsonl").write_bytes(lines)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    names = [f"--set=data.name={tmp_path}/own", "--set=data.rows=null", "--set=data.test_rows=0"]
    command = ["local", f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine", *names]
    for more in (["--dry-run"], []):
        assert main([*command, *more]) == 2
        (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert error.startswith(f"error: data set {tmp_path}/own") and problem in error


def test_all_rows_of_a_file_that_does_not_begin_with_the_bad_one_are_looked_at(tiny: Path) -> None:
    """What the first look at a data set does not reach ends the run in the same way."""
    from finetune.settings.sections import Data

    own = tiny / "late"
    own.mkdir()
    (own / "train.jsonl").write_bytes(SOUP.encode() + b'{"text": "a \\ud83d", "emoji": "a"}')
    data = Data(name=str(own), split="train", reply="emoji", fields={"text": "text"}, prompt="{text}")
    with pytest.raises(InputError, match=r"row 1 \(the first is 0\) has half a surrogate pair"):
        load_conversations(data, 42)


def test_a_row_that_does_not_fit_is_left_out_rather_than_cut_and_counted(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from finetune.model.loading import load_processor

    recipe = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji")
    tokenizer = load_processor(recipe.model.name, pictures=False)
    rows, _ = load_conversations(recipe.data, 42)
    whole = to_tokens(rows, tokenizer, None)
    capsys.readouterr()
    limit = sorted(len(ids) for ids in whole["input_ids"])[-3]
    fitting = to_tokens(rows, tokenizer, limit)
    assert list(fitting["input_ids"]) == [ids for ids in whole["input_ids"] if len(ids) <= limit]
    assert 20 < len(fitting) < len(whole)
    left_out = f"{24 - len(fitting)} of 24 rows are left out: longer than training.max_length, {limit} tokens"
    assert capsys.readouterr().out == f"{left_out}\n"
    with pytest.raises(InputError, match=r"all 24 rows are longer than training\.max_length, 3 tokens"):
        to_tokens(rows, tokenizer, 3)


def test_a_chat_template_that_cannot_tell_prompt_from_reply_is_refused(tiny: Path, tmp_path: Path) -> None:
    """In tutorial 003 the template rendered an empty text, and nothing was trained."""
    from finetune.model.loading import load_processor

    recipe = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji")
    tokenizer = load_processor(recipe.model.name, pictures=False)
    tokenizer.chat_template = ""
    rows, _ = load_conversations(recipe.data, 42)
    with pytest.raises(InputError, match="chat template"):
        to_tokens(rows, tokenizer, None)


def test_a_text_recipe_on_the_model_with_pictures_adapts_the_language_model_alone(
    tiny: Path, tmp_path: Path
) -> None:
    trainer = make_trainer(recipe_of(tiny, tmp_path, "gemma-3-12b-text-to-sql"), tmp_path)
    assert type(trainer.model.get_base_model()).__name__ == "Gemma3ForConditionalGeneration"
    trained = [name for name, weight in trainer.model.named_parameters() if weight.requires_grad]
    assert trained and all(".language_model.layers." in name and ".lora_" in name for name in trained)


def test_rate_decay_and_the_rows_have_settings_of_their_own(tiny: Path, tmp_path: Path) -> None:
    more = [
        "training.seed=7",
        "training.data_seed=42",
        "training.warmup_steps=0.5",
        "training.weight_decay=0.1",
    ]
    recipe = recipe_of(tiny, tmp_path, "gemma-3-1b-emoji", "training.schedule=linear", *more)
    trainer = make_trainer(recipe, tmp_path)
    trainer.create_optimizer_and_scheduler(num_training_steps=8)
    rates = []
    for _ in range(8):
        rates.append(trainer.lr_scheduler.get_last_lr()[0] / recipe.training.learning_rate)
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
    assert rates == pytest.approx([0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25])
    assert {group["weight_decay"] for group in trainer.optimizer.param_groups if group["params"]} == {0.1}
    assert (trainer.args.seed, trainer.args.data_seed) == (7, 42)
    other = make_trainer(recipe_of(tiny, tmp_path, "gemma-3-1b-emoji", "training.seed=42"), tmp_path)
    assert list(trainer.train_dataset["input_ids"]) == list(other.train_dataset["input_ids"])


def test_target_modules_that_match_nothing_are_refused(tiny: Path, tmp_path: Path) -> None:
    path = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    recipe = load_recipe(str(path), [r"lora.target_modules=.*language_model\.nothing"])
    with pytest.raises(InputError, match=r"lora\.target_modules .* matches no module of Gemma3ForCausalLM"):
        make_trainer(recipe, tmp_path)
