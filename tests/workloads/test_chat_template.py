"""Which tokens of a conversation are trained, for the chat templates of published models."""

import re
from pathlib import Path
from typing import Any

import pytest
from tiny_families import templates, tokenizer_of

from conversations.chat_template import ChatTemplate
from finetune.run.answer_texts import read_answers
from rehearsal.running_pods.tiny import make_tokenizer
from shared.errors import InputError

CONVERSATION = [
    {"role": "user", "content": "new lamp"},
    {"role": "assistant", "content": "warm light"},
    {"role": "user", "content": "red scarf"},
    {"role": "assistant", "content": "soft wool"},
]
# What a template of a thinking model writes before a reply without thoughts.
THOUGHTS = re.compile(r"(<think>)?\s*</think>\s*")
# What else stands before or behind the reply, by the template's name.
CHANNELS = {"gptoss": "<|channel|>final<|message|>", "muse_glimmer": " to=user<|message|>"}


def replies(tokenizer: Any, conversation: list[dict[str, Any]], **more: Any) -> list[str]:
    """The trained texts of a conversation."""
    runs: list[list[int]] = []
    for row in ChatTemplate(tokenizer).rows(conversation, **more):
        runs.append([])
        for token, is_trained in zip(row.tokens, row.trained, strict=True):
            if is_trained:
                runs[-1].append(token)
            elif runs[-1]:
                runs.append([])
    return [tokenizer.decode(run) for run in runs if run]


def test_every_published_template_trains_every_reply_to_the_end_of_its_turn_and_nothing_else() -> None:
    known = templates()
    assert {"gemma3", "gemma4", "gptoss", "llama3", "phi3", "qwen3", "qwen3_6", "smolvlm"} <= known.keys()
    for name, template in known.items():
        tokenizer = tokenizer_of(template)
        for turns in (2, 4):
            trained = replies(tokenizer, CONVERSATION[:turns])
            assert len(trained) == turns // 2, name
            for text, reply in zip(trained, ["warm light", "soft wool"], strict=False):
                before, end = text.removeprefix(CHANNELS.get(name, "")).split(reply)
                assert not THOUGHTS.sub("", before).strip(), (name, text)
                # Phi 3 ends a text with another token behind the end of the turn.
                assert re.fullmatch(r"<[^<>]+>(<[^<>]+>|\n<eos>)?", end), (name, text)


def test_the_real_template_of_gemma_3_trains_as_before_and_as_trl_marks_it_but_for_the_newline() -> None:
    import trl

    tokenizer = tokenizer_of(templates()["gemma3"])
    marked = (Path(trl.__file__).parent / "chat_templates" / "gemma3_training.jinja").read_text()
    expected = tokenizer.apply_chat_template(
        CONVERSATION, chat_template=marked, return_dict=True, return_assistant_tokens_mask=True
    )
    row = ChatTemplate(tokenizer).row(CONVERSATION)
    assert row.tokens == expected["input_ids"]
    differ = [at for at, mark in enumerate(expected["assistant_masks"]) if bool(mark) != row.trained[at]]
    assert [tokenizer.decode(row.tokens[at - 1 : at + 1]) for at in differ] == ["<end_of_turn>\n"] * 2


@pytest.mark.parametrize("name", ["gemma3", "gemma4", "gptoss", "qwen3", "qwen3_6", "nemotron_3_nano"])
@pytest.mark.parametrize("end", [0, 1])
def test_an_answer_is_judged_without_the_thoughts_before_it(name: str, end: int) -> None:
    """Also one that has reached its greatest number of tokens, without the end of its turn."""
    import torch

    tokenizer = tokenizer_of(templates()[name])
    # Answers are decoded without special tokens.
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn|>"]})
    template = ChatTemplate(tokenizer)
    row = template.row(CONVERSATION[:2])
    first = row.trained.index(True)
    answer = [token for token, is_trained in zip(row.tokens, row.trained, strict=True) if is_trained]
    padding = [tokenizer.pad_token_id] * 2
    prompts, answers = [padding + row.tokens[:first]], [answer[: len(answer) - end] + padding]
    assert read_answers(tokenizer, torch.tensor(prompts), torch.tensor(answers)) == ["warm light"]


def test_a_newline_that_ends_a_reply_is_trained_where_no_token_does() -> None:
    """A template of plain text: the model itself writes the line's end."""
    tokenizer = make_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    assert replies(tokenizer, CONVERSATION) == ["warm light\n", "soft wool\n"]


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (None, "the model has no chat template"),
        ("{{ raise_exception('roles must alternate') }}", "begins with 'new lamp': roles must alternate"),
        ("{{ messages[0].content.parts.text }}", "begins with 'new lamp': 'str object' has no attribute"),
        ("{% if %}", "begins with 'new lamp': Expected an expression"),
        ("{{ messages[0].content + 7 }}", "begins with 'new lamp': can only concatenate str"),
        (
            "{{ messages | length }}{{ messages[-1].content }}",
            "writes the prompt differently when a reply follows",
        ),
    ],
    ids=["none", "refuses", "attribute", "syntax", "type", "changes"],
)
def test_a_template_that_fails_is_told_in_one_line(template: str | None, problem: str) -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(InputError, match="the model") as error:
        ChatTemplate(tokenizer).row(CONVERSATION)
    assert problem in str(error.value) and "\n" not in str(error.value)
