"""The user's own rows: files on a disk or in a bucket, a data set's configuration, whole conversations."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from finetune.__main__ import main
from finetune.rows.data import load_conversations
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import Recipe, load_recipe
from rehearsal.running_pods.tiny import make_recipe, make_trainer
from rehearsal.stand_ins.bucket import Buckets
from shared.errors import InputError

ROOT = Path(__file__).parents[2]
PAGE, EXAMPLE = ROOT / "docs" / "training" / "own-data.md", ROOT / "examples" / "own-data"
SOUP, DOG = {"text": "soup", "emoji": "🥣"}, {"text": "dog", "emoji": "🐶"}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "new lamp"},
    {"role": "assistant", "content": " warm light "},
    {"role": "user", "content": "red scarf"},
    {"role": "assistant", "content": "soft wool"},
]
CONVERSATIONS = ["data.messages=messages", "data.reply=", "data.prompt=", "data.fields={}"]


def jsonl(*rows: object) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def recipe_of(tiny: Path, tmp_path: Path, files: list[str], *more: str) -> Recipe:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    return load_recipe(str(recipe), [*of_files(files), *more])


def of_files(files: list[str]) -> list[str]:
    return ["data.name=", f"data.files={json.dumps(files)}", "data.rows=null", "data.test_rows=0"]


@pytest.fixture
def chats(tiny: Path, tmp_path: Path) -> Recipe:
    """A recipe of twelve conversations. The first is CHAT, and all begin with it, replies included."""
    rows = [CHAT, *(CHAT + CHAT[1:] * (number % 3) + CHAT[1:3] for number in range(11))]
    (tmp_path / "chats.jsonl").write_bytes(jsonl(*({"messages": row, "source": "shop"} for row in rows)))
    return recipe_of(tiny, tmp_path, [f"{tmp_path}/chats.jsonl"], *CONVERSATIONS)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_files_are_read_like_a_data_set_of_the_hub(
    kind: str, place: str, tiny: Path, tmp_path: Path, buckets: Buckets
) -> None:
    from datasets import Dataset

    folder = tmp_path if place == "disk" else buckets.folder / "bucket"
    for name, row in (("a", SOUP), ("b", DOG)):
        rows = Dataset.from_list([row])
        rows.to_json(folder / f"{name}.jsonl") if kind == "jsonl" else rows.to_parquet(
            folder / f"{name}.parquet"
        )
    named = tmp_path if place == "disk" else "gs://bucket"
    recipe = recipe_of(tiny, tmp_path, [f"{named}/{name}.{kind}" for name in "ab"])
    rows, _ = load_conversations(recipe.data, 42)
    assert [row["prompt"][-1]["content"] for row in rows] == [
        "Translate to emoji: soup",
        "Translate to emoji: dog",
    ]
    assert [row["completion"][0]["content"] for row in rows] == ["🥣", "🐶"]


@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_a_file_that_has_changed_since_the_run_began_ends_its_next_start(
    place: str,
    tiny: Path,
    tmp_path: Path,
    buckets: Buckets,
    trained: list[Recipe],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, named = (tmp_path, tmp_path) if place == "disk" else (buckets.folder / "bucket", "gs://bucket")
    for name in "ab":
        (folder / f"{name}.jsonl").write_bytes(jsonl(SOUP))
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    sets = [f"--set={setting}" for setting in of_files([f"{named}/a.jsonl", f"{named}/b.jsonl"])]
    command = ["local", f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine", *sets]
    assert main(command) == main(command) == 0
    assert trained[0] == trained[1]
    assert json.loads((tmp_path / "store/mine/run.json").read_text())["commits"]["data"].startswith(
        f"{named}/a.jsonl#"
    )
    (folder / "b.jsonl").write_bytes(jsonl(DOG))
    # A process of the same start, on another node.
    with pytest.raises(InputError, match=r"b\.jsonl has changed since the run began"):
        load_conversations(trained[0].data, 42)
    capsys.readouterr()
    for more in ([], ["--dry-run"]):
        assert main([*command, *more]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert f"data file {named}/b.jsonl has changed since the run began: put back what it was" in error
    assert len(trained) == 2


@pytest.mark.parametrize("named", ["gs://bucket", "/nowhere"])
def test_a_file_that_does_not_exist_is_named(
    named: str, tiny: Path, tmp_path: Path, buckets: Buckets, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    sets = [f"--set={setting}" for setting in of_files([f"{named}/rows.jsonl"])]
    for more in ([f"--storage={tmp_path}/store", "--run=mine"], ["--dry-run"]):
        assert main(["local", f"--recipe={recipe}", *sets, *more]) == 2
        assert capsys.readouterr().err == f"error: data file {named}/rows.jsonl does not exist\n"


def test_the_example_leads_to_a_dry_run_from_any_folder(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe's file of rows is beside the recipe, wherever the reader is."""
    monkeypatch.chdir(tmp_path)
    command = ["local", f"--recipe={EXAMPLE}/my-rows.yaml", f"--set=model.name={tiny}/text-model"]
    assert main([*command, "--dry-run"]) == 0
    assert f"rows       20 of {EXAMPLE}/my-rows.jsonl" in capsys.readouterr().out


def test_the_page_on_own_data_shows_the_recipe_of_the_example() -> None:
    (shown, *_) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert yaml.safe_load(shown) == yaml.safe_load((EXAMPLE / "my-rows.yaml").read_text())
    rows = (EXAMPLE / "my-rows.jsonl").read_text()
    assert re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0] in rows


def test_rows_that_a_stack_uploaded_are_below_the_storage_of_the_run(
    tiny: Path, tmp_path: Path, buckets: Buckets, trained: list[Recipe]
) -> None:
    """After a destroy the object has another generation. Its name says that it holds the same."""
    name = f"data/sha256-{'0123456789abcdef'}/rows.jsonl"
    file = buckets.folder / "bucket" / name
    file.parent.mkdir(parents=True)
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    sets = [f"--set={override}" for override in of_files([f"storage://{name}"])]
    for _ in range(2):
        file.write_bytes(jsonl(SOUP, DOG))
        assert main(["local", f"--recipe={recipe}", "--storage=gs://bucket", "--run=mine", *sets]) == 0
        file.unlink()
    record = json.loads((buckets.folder / "bucket" / "mine" / "run.json").read_text())
    assert record["recipe"]["data"]["files"] == [f"gs://bucket/{name}"]
    assert record["commits"]["data"] == f"gs://bucket/{name}#sha256-0123456789abcdef"
    assert len(trained) == 2


def test_a_data_set_may_have_configurations(tiny: Path, tmp_path: Path) -> None:
    for name, row in (("food", SOUP), ("pets", DOG)):
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "train.jsonl").write_bytes(jsonl(row))
    configs = "".join(f"- config_name: {name}\n  data_dir: {name}\n" for name in ("food", "pets"))
    (tmp_path / "own" / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    more = [f"data.name={tmp_path}/own", "data.files=[]", "data.config=pets"]
    rows, _ = load_conversations(recipe_of(tiny, tmp_path, [], *more).data, 42)
    assert [row["completion"][0]["content"] for row in rows] == ["🐶"]


def test_every_reply_of_a_conversation_is_trained_and_nothing_else(chats: Recipe) -> None:
    from finetune.model.loading import load_processor

    tokenizer = load_processor(chats.model.name, pictures=False)
    rows, _ = load_conversations(chats.data, 42)
    tokens = to_tokens(rows, tokenizer, None)
    for ids, labels in zip(tokens["input_ids"], tokens["labels"], strict=True):
        assert all(label in (token, NOT_TRAINED) for token, label in zip(ids, labels, strict=True))
        assert tokenizer.decode(ids).count("<start_of_turn>model\n") == labels.count(
            tokenizer.convert_tokens_to_ids("<end_of_turn>")
        )
    assert tokenizer.decode([token for token in tokens["labels"][0] if token != NOT_TRAINED]) == (
        "warm light<end_of_turn>soft wool<end_of_turn>"
    )


def test_conversations_are_packed_without_a_token_more_or_less(chats: Recipe, tmp_path: Path) -> None:
    trainer: Any = make_trainer(chats, tmp_path)
    batches = [trainer.data_collator([pack]) for pack in trainer.train_dataset]
    assert 1 < len(batches) < 12
    labels = [label for batch in batches for label in batch["labels"][0].tolist() if label != NOT_TRAINED]
    rows, _ = load_conversations(chats.data, 42)
    alone = to_tokens(rows, trainer.processing_class, None)
    assert sorted(labels) == sorted(label for row in alone["labels"] for label in row if label != NOT_TRAINED)


def test_a_run_on_conversations_learns_and_finishes(chats: Recipe, tmp_path: Path) -> None:
    command = ["local", f"--recipe={tmp_path}/recipe.yaml", f"--storage={tmp_path}/store", "--run=mine"]
    sets = [
        f"--set={setting}" for setting in [*of_files(chats.data.files), *CONVERSATIONS, "training.epochs=3"]
    ]
    assert main([*command, *sets]) == 0
    lines = [json.loads(line) for line in (tmp_path / "store/mine/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.1


def test_a_recipe_of_eight_lines_trains(chats: Recipe, tiny: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.yaml"
    short.write_text(
        f"model:\n  name: {tiny / 'text-model'}\n"
        f"data:\n  files: {json.dumps(chats.data.files)}\n  messages: messages\n"
        "training:\n  epochs: 2\n"
    )
    assert main(["local", f"--recipe={short}", f"--storage={tmp_path}/store", "--run=short"]) == 0
    assert json.loads((tmp_path / "store/short/COMPLETE.json").read_text())


def test_conversations_with_an_empty_turn_are_left_out_and_counted(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gap = [*CHAT[:3], {"role": "user", "content": " "}, CHAT[4]]
    rows = [
        {"messages": messages}
        for messages in (CHAT, gap, [CHAT[1], {"role": "assistant", "content": None}], None)
    ]
    (tmp_path / "chats.jsonl").write_bytes(jsonl(*rows))
    more = [*CONVERSATIONS, "data.most_left_out=1"]
    recipe = recipe_of(tiny, tmp_path, [f"{tmp_path}/chats.jsonl"], *more)
    assert len(load_conversations(recipe.data, 42)[0]) == 1
    assert "3 of 4 rows are left out: a text that the recipe needs is empty\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (CHAT[:4], "not system user assistant user"),
        ([*CHAT[1:3], *CHAT[2:3]], "not user assistant assistant"),
        ([*CHAT[1:3], {"role": "tool", "content": "7"}], "not user assistant tool"),
        (CHAT[2:3], "not assistant"),
        ([], "not this"),
        ([{"role": "user"}, {"role": "assistant"}], ""),
        ([{"speaker": "human", "says": "new lamp"}], "a turn with speaker, says"),
        (7, ""),
        ([CHAT[1], {"role": "assistant", "content": 7}], ""),
        ([CHAT[1], {"role": "assistant", "content": [{"type": "image", "url": "a.png"}]}], ""),
    ],
    ids=[
        "no-reply",
        "twice",
        "tool",
        "no-user",
        "none",
        "no-content",
        "other-keys",
        "number",
        "content",
        "parts",
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_row_that_is_no_conversation_is_told_with_its_number_in_one_line(
    messages: object, problem: str, place: int, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"messages": CHAT}, {"messages": CHAT}]
    rows.insert(place, {"messages": messages})
    (tmp_path / "chats.jsonl").write_bytes(jsonl(*rows))
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    sets = [f"--set={setting}" for setting in [*of_files([f"{tmp_path}/chats.jsonl"]), *CONVERSATIONS]]
    assert main(["local", f"--recipe={recipe}", *sets, "--dry-run"]) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: data set {tmp_path}/chats.jsonl") and f"row {place}" in error
    assert problem in error
