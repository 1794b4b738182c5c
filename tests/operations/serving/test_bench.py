"""`python -m operations bench`, as it is typed, with a stand-in for vLLM's client."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from operations.google.clients import Clients
from operations.serving import load
from operations.state import State
from tests.operations.conftest import Command
from tests.operations.past_stack import PastStack
from tests.operations.serving.model_server import ModelServer

# Notes how it was called, and writes the report of a test.
CLIENT = """
import json, os, pathlib, sys
words = sys.argv[1:]
options = dict(zip(words, words[1:]))
questions = pathlib.Path(options["--dataset-path"]).read_text().splitlines()
noted = pathlib.Path({folder!r})
with (noted / "calls").open("a") as calls:
    print(json.dumps([words, os.environ.get("OPENAI_API_KEY"), questions]), file=calls)
if (noted / "error").exists():
    sys.exit((noted / "error").read_text())
report = (noted / "report.json").read_text()
pathlib.Path(options["--result-dir"], options["--result-filename"]).write_text(report)
"""
REPORT: dict[str, Any] = {
    "duration": 2.0,
    "output_lens": [64, 64, 64],
    "ttfts": [0.1, 0.2, 0.6],
    "itls": [[0.01, 0.02], [0.02], [0.03]],
    "errors": ["", "", ""],
}


class Client:
    """The stand-in for vLLM's client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "client").write_text(CLIENT.format(folder=str(folder)))
        self.report(REPORT)

    def report(self, report: dict[str, Any]) -> None:
        """Sets what it measures."""
        (self._folder / "report.json").write_text(json.dumps(report))

    def fail(self, message: str) -> None:
        """Lets it end with an error."""
        (self._folder / "error").write_text(message)

    @property
    def calls(self) -> list[tuple[list[str], str | None, list[str]]]:
        """Its arguments, its token and its questions."""
        return [json.loads(line) for line in (self._folder / "calls").read_text().splitlines()]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    folder = tmp_path / "client-of-vllm"
    folder.mkdir()
    monkeypatch.setattr(load, "_PYTHON", Path(sys.executable))
    monkeypatch.setattr(load, "_VLLM", folder / "client")
    monkeypatch.setenv("OPENAI_API_KEY", "somebody-elses")
    return Client(folder)


def test_the_table_has_three_loads(command: Command, on_gke: tuple[str, ...], client: Client) -> None:
    status, out, error = command("bench", *on_gke, "--json")
    assert (status, error) == (0, "")
    loads = json.loads(out)["loads"]
    assert [measured["at_once"] for measured in loads] == [1, 4, 16]
    assert loads[0] == {
        "model": "a-model",
        "at_once": 1,
        "requests": 3,
        "failed": 0,
        "first_ms": 200.0,
        "slowest_first_ms": 600.0,
        "between_ms": 20.0,
        "tokens_per_second": 96.0,
    }
    table = command("bench", *on_gke).out
    assert table.startswith("neutral: a-model, answers of 64 tokens")
    assert "3 of 3" in table


def test_questions_differ_and_have_the_form_of_the_recipe(
    command: Command, on_cloud_run: tuple[str, ...], client: Client
) -> None:
    assert command("bench", *on_cloud_run).status == 0
    for words, _, lines in client.calls:
        questions = [json.loads(line)["prompt"] for line in lines]
        assert len(questions) == int(words[words.index("--num-prompts") + 1]) == len(set(questions))
        assert all(question.startswith("Translate to emoji: ") for question in questions)


def test_a_model_of_plain_texts_is_measured_with_texts(
    command: Command,
    state: Callable[[State], None],
    neutral: PastStack,
    on_gke: tuple[str, ...],
    client: Client,
) -> None:
    alive = neutral.alive
    state(replace(alive, outputs={**alive.outputs, "questionForm": json.dumps({"texts": True})}))
    assert command("bench", *on_gke).status == 0
    for words, _, _ in client.calls:
        options = dict(pairwise(words))
        assert (options["--backend"], options["--endpoint"]) == ("openai", "/v1/completions")
        assert json.loads(options["--extra-body"])["max_tokens"] == 64


def test_the_client_gets_the_identity_token_and_nobody_elses(
    command: Command,
    on_gke: tuple[str, ...],
    client: Client,
    on_cloud_run: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Clients, "identity_token", lambda *_: "mine")
    assert command("bench", *on_cloud_run).status == 0
    assert {token for _, token, _ in client.calls} == {"mine"}
    assert "mine" not in json.dumps([words for words, _, _ in client.calls])


def test_a_server_without_tokens_gets_none(command: Command, on_gke: tuple[str, ...], client: Client) -> None:
    assert command("bench", *on_gke).status == 0
    assert {token for _, token, _ in client.calls} == {None}


def test_requests_that_fail_are_counted(command: Command, on_gke: tuple[str, ...], client: Client) -> None:
    client.report({**REPORT, "output_lens": [64, 0, 64], "errors": ["", "Too Many Requests", ""]})
    status, out, _ = command("bench", *on_gke)
    assert status == 1
    assert "2 of 3" in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda client: client.report(
                {**REPORT, "output_lens": [0, 0, 0], "errors": ["a\nForbidden"] * 3}
            ),
            "no request was answered, Forbidden",
        ),
        (lambda client: client.fail("no such\noption"), "vLLM's client ended with status 1: option"),
        (lambda client: client.report({"duration": 1}), "the report of vLLM's client is not understood"),
    ],
)
def test_a_client_without_figures_is_said_in_a_line(
    change: Callable[[Client], None],
    message: str,
    command: Command,
    on_gke: tuple[str, ...],
    client: Client,
) -> None:
    change(client)
    status, out, error = command("bench", *on_gke)
    assert (status, out) == (2, "")
    (line,) = error.splitlines()
    assert message in line


def test_without_the_client_a_line_says_how_to_get_it(
    command: Command, on_gke: tuple[str, ...], model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_PYTHON", Path("/nowhere/python"))
    assert command("bench", *on_gke) == (
        2,
        "",
        "operations bench: vLLM's client is not installed: make .venv-serving/.ready (6 GB, some minutes)\n",
    )
    assert not model.asked
