"""`python -m operations ask` without a prompt: a conversation, line by line."""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from operations.state import State
from tests.operations.conftest import Command
from tests.operations.past_stack import PastStack
from tests.operations.serving.model_server import ModelServer

ANSWER = "\N{BANANA}\N{FORK AND KNIFE}"

Types = Callable[[str], None]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Types:
    """What a person types until Ctrl-D."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture
def form(state: Callable[[State], None], neutral: PastStack) -> Callable[..., None]:
    """Chooses how the rows of the served model ask."""
    alive = neutral.alive

    def choose(**form: object) -> None:
        state(replace(alive, outputs={**alive.outputs, "questionForm": json.dumps(form)}))

    return choose


def test_each_line_is_asked_with_all_before_it(
    command: Command, on_gke: tuple[str, ...], model: ModelServer, types: Types, form: Callable[..., None]
) -> None:
    form(system="Be brief.", prompt="Food: {food}")
    types("a banana\n\nand then?\n")
    assert command("ask", *on_gke) == (0, f"{ANSWER}\n{ANSWER}\n", "")
    assert model.question["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Food: a banana"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "Food: and then?"},
    ]


def test_thoughts_do_not_go_back_to_the_model(
    command: Command, on_gke: tuple[str, ...], model: ModelServer, types: Types
) -> None:
    model.deltas = [{"reasoning_content": "hm"}]
    types("one\ntwo\n")
    assert "(thinks: 2 characters)" in command("ask", *on_gke).out
    assert model.question["messages"][1] == {"role": "assistant", "content": ANSWER}


def test_a_conversation_without_a_line_asks_nothing(
    command: Command, on_gke: tuple[str, ...], types: Types
) -> None:
    types("")
    assert command("ask", *on_gke) == (0, "", "")


def test_an_answer_that_breaks_off_ends_the_conversation(
    command: Command, on_gke: tuple[str, ...], model: ModelServer, types: Types
) -> None:
    model.ending = "length"
    types("one\ntwo\n")
    status, _, error = command("ask", *on_gke)
    assert status == 2 and "the answer is cut" in error
    assert len(model.question["messages"]) == 1


def test_a_model_of_plain_texts_has_no_conversation(
    command: Command, on_gke: tuple[str, ...], model: ModelServer, types: Types, form: Callable[..., None]
) -> None:
    form(texts=True)
    types("one\n")
    status, _, error = command("ask", *on_gke)
    assert status == 2 and "give a PROMPT" in error
    assert not model.asked
