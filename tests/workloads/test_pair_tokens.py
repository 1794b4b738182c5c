"""The tokens of pairs of replies: what each has, which pairs are too long, and what is refused."""

from functools import cache
from typing import Any

import pytest
from datasets import Dataset
from tiny_families import templates, tokenizer_of

from finetune.rows.pair_tokens import CHOSEN, PROMPT, REJECTED, to_pair_tokens
from shared.errors import InputError

ASKED = [{"role": "user", "content": "Which fruit?"}]
SHORT, LONG = "a pear", "a pear, and then many more of them " * 9


@cache
def tokenizer() -> Any:
    return tokenizer_of(templates()["gemma3"])


def row(chosen: str, rejected: str, prompt: Any = ASKED) -> dict[str, Any]:
    replies = {"completion": chosen, "rejected": rejected}
    return {"prompt": prompt} | {
        name: [{"role": "assistant", "content": text}] for name, text in replies.items()
    }


def tokens_of(*rows: dict[str, Any], **options: Any) -> list[dict[str, list[int]]]:
    return to_pair_tokens(
        Dataset.from_list(list(rows)), tokenizer(), options.pop("length", None), **options
    ).to_list()


def test_each_reply_is_in_its_place_and_ends_at_the_token_that_ends_it() -> None:
    (pair,) = tokens_of(row("a pear", "a stone"))
    texts = {name: tokenizer().decode(pair[name]) for name in (PROMPT, CHOSEN, REJECTED)}
    assert texts[CHOSEN] == "a pear<end_of_turn>" and texts[REJECTED] == "a stone<end_of_turn>"
    assert texts[PROMPT].endswith("<start_of_turn>model\n") and "Which fruit?" in texts[PROMPT]


def test_earlier_replies_belong_to_the_prompt() -> None:
    earlier = [*ASKED, {"role": "assistant", "content": "a plum"}, *ASKED]
    (pair,) = tokens_of(row("a pear", "a stone", earlier))
    assert "a plum" in tokenizer().decode(pair[PROMPT])
    assert tokenizer().decode(pair[CHOSEN]) == "a pear<end_of_turn>"


@pytest.mark.parametrize("replies", [(SHORT, LONG), (LONG, SHORT)], ids=["rejected", "chosen"])
def test_a_pair_of_which_either_reply_is_too_long_is_left_out(
    replies: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    fitting = row(SHORT, "a stone")
    (whole,) = tokens_of(fitting)
    length = len(whole[PROMPT]) + max(len(whole[CHOSEN]), len(whole[REJECTED]))
    assert tokens_of(row(*replies), fitting, length=length) == [whole]
    assert "1 of 2 rows are left out: longer than training.max_length" in capsys.readouterr().out
    with pytest.raises(InputError, match=f"all 1 pairs are longer than training.max_length, {length - 1}"):
        tokens_of(fitting, length=length - 1)


@pytest.mark.parametrize("is_rejected", [False, True], ids=["chosen", "rejected"])
def test_a_token_that_the_model_does_not_know_is_refused_in_either_reply(is_rejected: bool) -> None:
    last = len(tokenizer()) - 1
    replies = [f"a{tokenizer().decode([last])}b", SHORT]
    assert len(tokens_of(row(*replies), vocabulary=last + 1)) == 1
    with pytest.raises(InputError, match=f"the model knows {last} tokens"):
        tokens_of(row(*replies[:: -1 if is_rejected else 1]), vocabulary=last)
