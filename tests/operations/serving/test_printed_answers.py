"""What `python -m operations ask` prints of an answer, whole or not, with text or without."""

import pytest

from tests.operations.conftest import Command
from tests.operations.serving.model_server import ModelServer

ANSWER = "\N{BANANA}\N{FORK AND KNIFE}\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"error": {"message": "out of memory"}}, "the server failed: out of memory"),
        ({"ending": None}, "the answer ended in the middle: ask again"),
        (
            {"ending": "length"},
            "the answer is cut: with its question it is longer than --max-model-len; ask for less, "
            "or raise it in `vllmArguments`",
        ),
        ({"ending": "abort"}, "the server broke the answer off: ask again"),
        ({"ending": "content_filter"}, "the server's filter has cut the answer: ask for something else"),
    ],
)
def test_an_answer_that_is_not_whole_is_printed_and_said(
    change: dict[str, object], message: str, command: Command, on_gke: tuple[str, ...], model: ModelServer
) -> None:
    for name, setting in change.items():
        setattr(model, name, setting)
    assert command("ask", *on_gke, "?") == (2, ANSWER, f"operations ask: {message}\n")


def test_a_model_cannot_write_to_the_terminal_what_is_no_text(
    command: Command, on_gke: tuple[str, ...], model: ModelServer
) -> None:
    turned = "\N{RIGHT-TO-LEFT OVERRIDE}"
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}"
    model.parts = ("a\x1b[2J\tb\n", "\ud83d", family, turned)
    assert command("ask", *on_gke, "?").out == f"a\\x1b[2J\tb\n\\ud83d{family}\\u202e\n"


THOUGHTS = ({"reasoning_content": "Hm, "}, {"reasoning": "a lamp."})
CALLS = (
    {"tool_calls": [{"index": 0, "function": {"name": "lamps", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"colour": '}}]},
    {"tool_calls": [{"index": 1, "function": {"name": "scarves", "arguments": "no JSON"}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"red"}'}}]},
)
CALLED = '{"name": "lamps", "arguments": {"colour": "red"}}\n{"name": "scarves", "arguments": "no JSON"}\n'


@pytest.mark.parametrize(
    ("deltas", "parts", "printed"),
    [
        (CALLS, (), CALLED),
        (CALLS, ("Wait.",), f"Wait.\n{CALLED}"),
        (THOUGHTS, (), "(thinks: 11 characters)\n(empty, finish_reason stop)\n"),
        (THOUGHTS, ("warm ", "light"), "(thinks: 11 characters)\nwarm light\n"),
        ((*THOUGHTS, *CALLS), (), f"(thinks: 11 characters)\n{CALLED}"),
        ((), (), "(empty, finish_reason stop)\n"),
        (({"refusal": "I do not do that."},), (), "I do not do that.\n"),
    ],
    ids=[
        "calls",
        "text and calls",
        "thoughts",
        "thoughts and text",
        "thoughts and calls",
        "empty",
        "refusal",
    ],
)
def test_an_answer_without_a_text_says_what_it_is(
    deltas: tuple[dict[str, object], ...],
    parts: tuple[str, ...],
    printed: str,
    command: Command,
    on_gke: tuple[str, ...],
    model: ModelServer,
) -> None:
    model.deltas, model.parts = deltas, parts
    assert command("ask", *on_gke, "?") == (0, printed, "")
