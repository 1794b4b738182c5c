"""The tokens of pairs of replies: what each has, which pairs are too long, and what is refused."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from tiny_families import templates, tokenizer_of

from conversations.chat_template import Row
from finetune.rows import cores
from finetune.rows.data import load_conversations
from finetune.rows.pair_tokens import CHOSEN, PROMPT, REJECTED, pair_of, to_pair_tokens
from finetune.rows.token_file import _mark
from finetune.settings.sections import Data
from finetune.storage.folder import Folder
from shared.errors import InputError

ASKED = [{"role": "user", "content": "Which fruit?"}]
SHORT, LONG = "a pear", "a pear, and then many more of them " * 9
Pairs = Callable[..., list[dict[str, list[int]]]]


@cache
def tokenizer() -> Any:
    return tokenizer_of(templates()["gemma3"])


def row(chosen: str, rejected: str, prompt: Any = ASKED) -> dict[str, Any]:
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


@pytest.fixture
def cache_of_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node with the tokens that it has."""
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache/tokens"


@pytest.fixture
def tokens_of(tmp_path: Path, cache_of_node: Path) -> Pairs:
    """Makes tokens of rows in a file, in the order of the file."""

    def pairs_of(
        *rows: dict[str, Any], length: int | None = None, **options: Any
    ) -> list[dict[str, list[int]]]:
        file = tmp_path / "pairs.jsonl"
        file.write_text("".join(f"{json.dumps(pair)}\n" for pair in rows))
        data = Data(files=[str(file)], messages="prompt", reply="chosen", rejected="rejected")
        loaded, _ = load_conversations(data, 42)
        return to_pair_tokens(loaded, tokenizer(), length, **options).to_list()

    return pairs_of


def test_each_reply_is_in_its_place_and_ends_at_the_token_that_ends_it(tokens_of: Pairs) -> None:
    (pair,) = tokens_of(row("a pear", "a stone"))
    texts = {name: tokenizer().decode(pair[name]) for name in (PROMPT, CHOSEN, REJECTED)}
    assert texts[CHOSEN] == "a pear<end_of_turn>" and texts[REJECTED] == "a stone<end_of_turn>"
    assert texts[PROMPT].endswith("<start_of_turn>model\n") and "Which fruit?" in texts[PROMPT]


def test_earlier_replies_belong_to_the_prompt(tokens_of: Pairs) -> None:
    earlier = [*ASKED, {"role": "assistant", "content": "a plum"}, *ASKED]
    (pair,) = tokens_of(row("a pear", "a stone", earlier))
    assert "a plum" in tokenizer().decode(pair[PROMPT])
    assert tokenizer().decode(pair[CHOSEN]) == "a pear<end_of_turn>"


@pytest.mark.parametrize("replies", [(SHORT, LONG), (LONG, SHORT)], ids=["rejected", "chosen"])
def test_a_pair_of_which_either_reply_is_too_long_is_left_out(
    tokens_of: Pairs, replies: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    fitting = row(SHORT, "a stone")
    (whole,) = tokens_of(fitting)
    length = len(whole[PROMPT]) + max(len(whole[CHOSEN]), len(whole[REJECTED]))
    assert tokens_of(row(*replies), fitting, length=length) == [whole]
    assert "1 of 2 rows are left out: longer than training.max_length" in capsys.readouterr().out
    with pytest.raises(InputError, match=f"all 1 rows are longer than training.max_length, {length - 1}"):
        tokens_of(fitting, length=length - 1)


@pytest.mark.parametrize("is_rejected", [False, True], ids=["chosen", "rejected"])
def test_a_token_that_the_model_does_not_know_is_refused_in_either_reply(
    tokens_of: Pairs, is_rejected: bool
) -> None:
    last = len(tokenizer()) - 1
    replies = [f"a{tokenizer().decode([last])}b", SHORT]
    assert len(tokens_of(row(*replies), vocabulary=last + 1)) == 1
    with pytest.raises(InputError, match=f"the model knows {last} tokens"):
        tokens_of(row(*replies[:: -1 if is_rejected else 1]), vocabulary=last)


@pytest.mark.parametrize("other", [[2, 6], [2], [2, 5, 5]], ids=["another token", "shorter", "longer"])
def test_two_prompts_for_two_replies_are_refused(other: list[int]) -> None:
    """trl compares the replies behind one prompt."""
    prompts = {"a pear": [2, 5], "a stone": other}

    def written(turns: list[dict[str, Any]], _: Any) -> Row:
        prompt = prompts[turns[-1]["content"]]
        return Row([*prompt, 7, 8], [False] * len(prompt) + [True, True])

    template: Any = SimpleNamespace(row=written)
    replies = {
        name: [{"role": "assistant", "content": text}]
        for name, text in (("completion", "a pear"), ("rejected", "a stone"))
    }
    with pytest.raises(InputError, match="writes two prompts for two replies"):
        pair_of(template, {"prompt": ASKED, **replies})
    prompts["a stone"] = prompts["a pear"]
    assert pair_of(template, {"prompt": ASKED, **replies}) == ([2, 5], [7, 8], [7, 8])


def many() -> list[dict[str, Any]]:
    return [row(f"a pear {at}", f"a stone {at}", [ASKED[0] | {"content": f"{at}?"}]) for at in range(13)]


@contextmanager
def processes(number: int, rows_at_a_time: int) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "cores", lambda: number)
        patch.setattr(cores, "BATCH", rows_at_a_time)
        yield


def test_processes_make_the_pairs_that_one_makes_in_the_order_of_the_rows(
    tokens_of: Pairs, cache_of_node: Path
) -> None:
    with processes(1, 1000):
        pairs = tokens_of(*many())
    for file in cache_of_node.iterdir():
        file.unlink()
    with processes(3, 2):
        assert tokens_of(*many()) == pairs
    for at, pair in enumerate(pairs):
        prompt, *replies = (tokenizer().decode(pair[name]) for name in (PROMPT, CHOSEN, REJECTED))
        assert f">user\n{at}?<" in prompt
        assert replies == [f"a pear {at}<end_of_turn>", f"a stone {at}<end_of_turn>"]


def test_pairs_are_made_once_on_each_node_and_read_from_beside_the_run(
    tokens_of: Pairs, tmp_path: Path, cache_of_node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Folder(str(tmp_path / "store/mine"))
    pairs = tokens_of(*many(), beside=run)
    (file,) = cache_of_node.iterdir()
    assert sorted(run.sizes("tokens")) == [file.name, f"{file.stem}.json"]
    monkeypatch.setattr(cores, "in_order", pytest.fail)
    assert tokens_of(*many(), length=1000, beside=run) == pairs
    file.unlink()
    assert tokens_of(*many(), beside=run) == pairs
    monkeypatch.undo()


def test_another_rejected_reply_has_tokens_of_its_own(tokens_of: Pairs) -> None:
    (first,), (second,) = tokens_of(row("a pear", "a stone")), tokens_of(row("a pear", "a brick"))
    assert first[PROMPT] == second[PROMPT] and first[CHOSEN] == second[CHOSEN]
    assert tokenizer().decode(second[REJECTED]) == "a brick<end_of_turn>"


FORGED: dict[str, dict[str, list[list[int]]]] = {
    "rows of a fine-tune": {"input_ids": [[2, 5]], "labels": [[2, 5]]},
    "other columns": {PROMPT: [[2]], REJECTED: [[6]], CHOSEN: [[5]]},
    "an unknown token": {PROMPT: [[2]], CHOSEN: [[99_999]], REJECTED: [[6]]},
    "an unknown token to avoid": {PROMPT: [[2]], CHOSEN: [[5]], REJECTED: [[99_999]]},
    "an unknown token in the prompt": {PROMPT: [[-1]], CHOSEN: [[5]], REJECTED: [[6]]},
    "no reply": {PROMPT: [[2]], CHOSEN: [[]], REJECTED: [[6]]},
    "no reply to avoid": {PROMPT: [[2]], CHOSEN: [[5]], REJECTED: [[]]},
}


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_pairs_beside_a_run_are_told_and_made_again(
    forgery: str, tokens_of: Pairs, tmp_path: Path, cache_of_node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pair, known = Folder(str(tmp_path / "store/mine")), row("a pear", "a stone"), len(tokenizer())
    pairs = tokens_of(pair, vocabulary=known, beside=run)
    (file,) = cache_of_node.iterdir()
    file.unlink()
    beside, lists = Path(run.path, "tokens", file.name), pyarrow.list_(pyarrow.int32())
    table = pyarrow.table({name: pyarrow.array(rows, lists) for name, rows in FORGED[forgery].items()})
    with pyarrow.OSFile(str(beside), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    beside.with_suffix(".json").write_text(json.dumps(_mark(beside)))
    assert tokens_of(pair, vocabulary=known, beside=run) == pairs
    assert f"tokens/{file.name} in {run.uri} is damaged: " in capsys.readouterr().out
