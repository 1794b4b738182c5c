"""The outputs of a stack that serves a model: how to ask it, and how to compare it with its run."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Final

import pulumi

from components.finished_run import FinishedRun
from workloads.finetune.settings.recipe import Data

_QUESTION: Final = "Why is the sky blue?"
# Fills the placeholder of a prompt, and asks a model whose rows are conversations in a bucket.
_EXAMPLE: Final = "I ate a banana for breakfast"
# Bytes of a file of rows in which the first row is looked for.
_BEGINNING: Final = 1 << 20


def outputs(data: Data | None = None) -> dict[str, pulumi.Input[str]]:
    """The command that asks the model and the form in which it asks, and the command that compares the model.

    Args:
        data: The rows that the served model was trained on. None for a model that the stack has not trained.
    """
    if not data:
        return {"ask": _command("ask", _QUESTION)}
    form = {"system": data.system or "", "prompt": data.prompt or "", "texts": bool(data.text)}
    question = _EXAMPLE if data.prompt else first_question(data)
    return {
        "ask": _command_in(form, question),
        "questionForm": json.dumps(form),
        "verify": _command("verify"),
    }


def outputs_of_runs(runs: Mapping[str, FinishedRun]) -> dict[str, pulumi.Input[str]]:
    """The same for the models of runs that other stacks have trained.

    Args:
        runs: By the names to which the models answer. A question without a name goes to the first.
    """
    form, *_ = (_form_of(run) for run in runs.values())
    forms: Any = pulumi.Output.all(**{name: _form_of(run) for name, run in runs.items()})
    # Each of several models is asked in a form of its own.
    several = {"questionForms": forms.apply(json.dumps)} if len(runs) > 1 else {}
    return {
        "ask": form.apply(lambda form: _command_in(form, _EXAMPLE if form["prompt"] else _QUESTION)),
        "questionForm": form.apply(json.dumps),
        **several,
        "verify": _command("verify"),
    }


def _form_of(run: FinishedRun) -> Any:
    return pulumi.Output.all(system=run.system, prompt=run.prompt, texts=run.texts)


def _command_in(form: Mapping[str, Any], question: str) -> str:
    """The command with an option for every field of the prompt but the last, which the question fills."""
    names = list(dict.fromkeys(name for _, name, _, _ in Formatter().parse(form["prompt"]) if name))
    return _command("ask", *(f"--field={name}={name.upper()}" for name in names[:-1]), question)


def _command(name: str, *arguments: str) -> str:
    command = (".venv/bin/python", "-m", "operations", name, "--stack", pulumi.get_stack())
    return shlex.join((*command, *arguments))


def first_question(data: Data) -> str:
    """The user's first message in the rows on this disk, in any of their forms, else another question."""
    (part, *_) = data.parts
    file = Path(part.files[0]) if part.files else None
    # A function of the user makes other rows, and only a training reads parquet.
    if part.hook or not file or file.suffix == ".parquet" or not file.is_file():
        return _EXAMPLE
    with file.open("rb") as stream:
        beginning = stream.read(_BEGINNING)
    try:
        row = next(part.rows_in(beginning, file.name, whole=len(beginning) < _BEGINNING), {})
        turns = part.conversation(row).turns
    except ValueError:
        return _EXAMPLE  # the training says what is wrong with the row
    question = next((turn["content"] for turn in turns if turn["role"] == "user"), "")
    if isinstance(question, list):
        question = "".join(piece.get("text", "") for piece in question)
    return question.strip() or _EXAMPLE
