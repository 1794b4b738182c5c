"""Training, the run's own answers and a server of the result have the same prompt, for every template.

A server applies the published template as vLLM does: with `add_generation_prompt`, and without an argument.
"""

import json
import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from jinja2.ext import loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment
from published import FAMILIES, changed, make_published
from published_forms import FORMS, TOKENS
from published_thinking import THINKING_FORMS
from test_published import FEW, recipe_of, start
from test_tool_calls import LAMPS, call
from tiny_families import templates, tokenizer_of

from conversations.chat_template import STOPS, ChatTemplate, Row
from conversations.stops import end_of_reply
from conversations.thinking import settle
from conversations.turns import thoughts_of
from finetune.__main__ import main
from finetune.model.loading import load_processor
from shared.errors import InputError

ROOT = Path(__file__).parents[2]
QUESTIONS = ("new lamp", "red scarf", "steel desk")
REPLIES = ("warm light", "soft wool", "ideal home")
THOUGHTS = ("a lamp is light", "a scarf is wool", "a desk is home")
OTHERS = {**FORMS, **THINKING_FORMS}
KINDS = ("plain", "key", "text", "last", "tools")
# Where published generation settings stop besides the tokenizer's own end of a text.
# The first three templates write more than one token behind a reply.
ENDS = {
    "phi3": "<|end|>",
    "phi3_5": "<|end|>",
    "Phi 4 mini": "<|end|>",
    "cohere2": "<|END_OF_TURN_TOKEN|>",
    "gemma4": "<|tool_response>",
    "gptoss": "<|call|>",
    "glm4moe": "<|observation|>",
    "qwen3": "<|im_end|>",
}


def known() -> dict[str, str]:
    return {**templates(), **OTHERS}


def conversation(turns: int, system: bool, kind: str) -> tuple[list[dict[str, Any]], list[Any] | None]:
    """A conversation of some turns. With tools its last turn calls one before it answers."""
    talk: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}] if system else []
    for at in range(turns):
        reply = {"role": "assistant", "content": REPLIES[at]}
        if kind == "key" or (kind == "last" and at == turns - 1):
            reply["reasoning_content"] = THOUGHTS[at]
        if kind == "text":
            # Some files lack the first tag, which stands in the prompt.
            reply["content"] = f"{'<think>' * (at != 1)}\n{THOUGHTS[at]}\n</think>\n\n{REPLIES[at]}"
        talk += [{"role": "user", "content": QUESTIONS[at]}, reply]
    if kind != "tools":
        return talk, None
    talk[-1:] = [call("lamps", colour="red"), {"role": "tool", "name": "lamps", "content": "7"}, talk[-1]]
    return talk, [LAMPS]


def served(tokenizer: Any, messages: list[dict[str, Any]], tools: list[Any] | None) -> list[int]:
    """The tokens of the prompt that a server makes."""
    text = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def trained_runs(rows: list[Row]) -> Iterator[tuple[list[int], list[int]]]:
    """Each reply that is trained, and the tokens before it."""
    for row in rows:
        bounds = [at for at, is_it in enumerate(row.trained) if is_it != (at > 0 and row.trained[at - 1])]
        bounds += [len(row.tokens)] * (len(bounds) % 2)
        for first, end in zip(bounds[::2], bounds[1::2], strict=True):
            yield row.tokens[:first], row.tokens[first:end]


@cache
def both_sides(name: str, thinks: bool) -> tuple[ChatTemplate, Any]:
    """The run's template, and the tokenizer of a server with the published one."""
    tokenizer = tokenizer_of(known()[name])
    tokenizer.add_tokens(TOKENS)
    ends = {tokenizer.eos_token, ENDS.get(name, tokenizer.eos_token)}
    setattr(tokenizer, STOPS, {*tokenizer.convert_tokens_to_ids([*ends])})
    settle(tokenizer, thinks)
    server = tokenizer_of(known()[name])
    server.add_tokens(TOKENS)
    server.chat_template = tokenizer.chat_template
    return ChatTemplate(tokenizer), server


def check(name: str, turns: int, system: bool, kind: str) -> str | None:
    """Compare the three prompts. Returns why the conversation is refused, or None if it is not."""
    messages, tools = conversation(turns, system, kind)
    template, server = both_sides(name, kind in ("key", "text", "last"))
    tokenizer = template.tokenizer
    try:
        rows = template.rows(messages, tools)
    except InputError as error:
        assert "\n" not in str(error)
        return str(error)
    places = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    runs = [*trained_runs(rows)]
    assert len(runs) == len(places)
    for place, (before, reply) in zip(places, runs, strict=True):
        # vLLM too gives contents and thoughts in the form that the template takes.
        asked = [template._as_taken(message) for message in messages[:place]]
        assert before == served(server, asked, tools), (name, place)
        own = tokenizer(template.prompt(messages[:place], tools), add_special_tokens=False)["input_ids"]
        assert before == own
        text = tokenizer.decode(reply)
        wanted = messages[place]
        thoughts, answer = thoughts_of(wanted)
        assert thoughts in text and answer["content"] in text
        assert "lamps" in text or not wanted.get("tool_calls")
        assert reply[-1] in tokenizer.added_tokens_decoder, text
        assert not {*reply[:-1]} & getattr(tokenizer, STOPS), text
    return None


# What templates have no place for: a system message, tools or their calls, thoughts under a key of their own.
NO_SYSTEM = {"gemma", "Gemma 2", "Mistral", "Phi 4 reasoning"}
NO_TOOLS = {
    *("cohere", "cohere2", "deepseek_r1_distill", "deepseekv3", "gemma", "gemma3", "idefics3", "lfm2"),
    *("llama3", "llava_next", "phi3", "phi3_5", "qwen2_5_vl", "smolvlm"),
    *(OTHERS.keys() - {"Mistral", "GLM 4", "Kimi"}),
}
THINK = {"EXAONE Deep", "OpenThinker", "Kimi VL Thinking", "reasoning", "Command A", "mode"}
# Gemma 4 writes thoughts before calls of tools alone.
NO_THOUGHTS = {
    *("cohere", "cohere2", "gemma", "gemma3", "gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "idefics3"),
    *("lfm2", "lfm2_v2", "llama3", "llama3_1", "llama3_2", "llava_next", "phi3", "phi3_5", "qwen2_5"),
    *("qwen2_5_vl", "qwen3_instruct_2507", "qwen3_vl", "smolvlm"),
    *(OTHERS.keys() - {"DeepSeek V3.1", "DeepSeek R1", "gpt-oss", "MiniMax", "Seed", "QwQ"} - THINK),
}


@pytest.mark.parametrize("name", known())
def test_trained_judged_and_served_prompts_are_the_same_tokens_or_the_row_is_refused(name: str) -> None:
    for turns, system, kind in product((1, 2, 3), (False, True), KINDS):
        reason = check(name, turns, system, kind)
        wanted = [
            *["refuses the conversation|writes no system message"] * (system and name in NO_SYSTEM),
            *["does not write (tools|calls)|refuses"] * (kind == "tools" and name in NO_TOOLS),
            *["does not write the thoughts"] * (kind in ("key", "last") and name in NO_THOUGHTS),
        ]
        assert bool(reason) == bool(wanted), (turns, system, kind, reason)
        assert not reason or any(re.search(words, reason) for words in wanted)


@pytest.mark.parametrize("name", ["phi3", "phi3_5", "Phi 4 mini"])
@pytest.mark.parametrize("end", ["<|end|>", "<eos>"])
def test_a_reply_is_trained_up_to_the_token_at_which_its_model_stops(
    name: str, end: str, tmp_path: Path
) -> None:
    model = make_published(FAMILIES[FEW], tmp_path)
    tokenizer = tokenizer_of(known()[name])
    tokenizer.save_pretrained(model)
    changed(model, "generation_config.json", eos_token_id=tokenizer.convert_tokens_to_ids(end))
    tokenizer = load_processor(str(model), pictures=False)
    (row,) = ChatTemplate(tokenizer).rows(conversation(1, False, "plain")[0])
    assert tokenizer.convert_ids_to_tokens(row.tokens[-1]) == end
    assert row.trained[-1]
    assert end_of_reply(tokenizer) == row.tokens[-1]


def test_the_page_says_how_many_templates_are_compared() -> None:
    page = (ROOT / "docs/training/own-model.md").read_text()
    assert f"the {len(templates())} templates that trl ships and for {len(OTHERS)} other" in page


@pytest.mark.parametrize(
    "name", ["qwen3_6", "nemotron_3_nano", "SmolLM 3", "DeepSeek V3.1", "DeepSeek R1", "Granite"]
)
def test_a_caller_may_ask_otherwise_than_the_rows(name: str) -> None:
    """By the template's own variable, or by `enable_thinking` where it had none."""
    switch = {"DeepSeek V3.1": "thinking", "Granite": "thinking"}.get(name, "enable_thinking")
    prompts = {}
    for thinks in (False, True):
        tokenizer = tokenizer_of(known()[name])
        settle(tokenizer, thinks)
        ask = partial(
            tokenizer.apply_chat_template,
            [{"role": "user", "content": "new lamp"}],
            add_generation_prompt=True,
            tokenize=False,
        )
        prompts[thinks] = ask()
        assert ask(**{switch: thinks}) == ask()
        other = ask(**{switch: not thinks})
        assert other != ask() or (name == "DeepSeek R1" and thinks)
        assert switch in resolved_by_vllm(tokenizer.chat_template) or (name == "DeepSeek R1" and thinks)
    assert prompts[False] != prompts[True]


def resolved_by_vllm(template: str) -> set[str]:
    """The arguments of a request that vLLM passes on to a template."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    return find_undeclared_variables(environment.parse(template))


def write_model(form: str, tmp_path: Path) -> Path:
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    (model / "chat_template.jinja").write_text(known()[form])
    return model


def test_a_server_of_trained_weights_asks_as_the_run_did(tiny: Path, tmp_path: Path) -> None:
    training = {"packing": False}
    assert start(recipe_of(write_model("QwQ", tmp_path), tiny, tmp_path, training=training, lora=None)) == 0
    text = (tmp_path / "store/mine/model/chat_template.jinja").read_text()
    assert known()["QwQ"] in text and "{% set asked_prompt %}" in text


@pytest.mark.parametrize("form", ["QwQ", "qwen3_6"])
def test_a_server_of_the_result_asks_as_the_run_did(form: str, tiny: Path, tmp_path: Path) -> None:
    """Its adapter has the chat template beside it, and the merged model has it among its own files."""
    model = write_model(form, tmp_path)
    assert start(recipe_of(model, tiny, tmp_path, training={"packing": False, "result": "model"})) == 0
    run = tmp_path / "store/mine"
    assert main(["merge", str(run), str(tmp_path / "merged")]) == 0
    assert json.loads((run / "COMPLETE.json").read_text())["own_template"] is True
    question = [{"role": "user", "content": "new lamp"}]
    texts = {(run / "adapter/chat_template.jinja").read_text()}
    for folder in (run / "model", tmp_path / "merged"):
        assert "chat_template" not in json.loads((folder / "tokenizer_config.json").read_text())
        texts.add((folder / "chat_template.jinja").read_text())
        tokenizer = load_processor(str(folder), pictures=False)
        prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
        assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert len(texts) == 1
