"""`preflight --trial`: the recipe is tried on this machine, and its last line is a finding."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.project import ROOT
from operations.findings import Level
from operations.trial import try_recipe
from tests.neutral_stacks import NEUTRAL
from tests.operations.conftest import HF_TOKEN, Command
from tests.operations.good_project import GoodProject
from tests.operations.google_server import GoogleServer
from tests.stacks.configuration import A4_RAY, load
from trial.__main__ import make_parser

PASSED = "mine passed its trial: 9 CPU seconds, 1.2 GiB of memory at most; a trial cannot see: speed"
FAILED = "error: lora.target_modules: the training changes nothing that the model writes"
SKIPPED = "warning: no trial of mine: no small model of Odd works (heads)"


@pytest.fixture
def tried(good: GoodProject, tmp_path: Path) -> Callable[[str], list[str]]:
    """Tries the recipe of a stack by a script. Returns level, text and remedy of the finding."""

    def tried(script: str) -> list[str]:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        finding = try_recipe(replace(good.plan(NEUTRAL), trial_command=(str(python), "--recipe=mine")))
        assert finding.topic == "trial"
        return [finding.level, finding.what]

    return tried


@pytest.mark.parametrize(
    ("script", "level", "what"),
    [
        (f"echo Plan; echo '{PASSED}'; echo 'FutureWarning: old' >&2", Level.FINE, PASSED),
        (f"echo Traceback >&2; echo '{FAILED}' >&2; exit 2", Level.PROBLEM, FAILED.removeprefix("error: ")),
        (f"echo '{SKIPPED}' >&2", Level.WARNING, SKIPPED.removeprefix("warning: ")),
        ("echo 'error: the Hub answers 503' >&2; exit 1", Level.UNKNOWN, "the Hub answers 503"),
        ("exit 137", Level.UNKNOWN, "the trial ended with status 137"),
    ],
    ids=["passed", "failed", "not possible", "the Hub", "killed"],
)
def test_the_end_of_a_trial_is_a_finding(
    script: str, level: Level, what: str, tried: Callable[[str], list[str]]
) -> None:
    assert tried(script) == [level, what]


def test_the_token_is_in_the_environment_alone(tried: Callable[[str], list[str]]) -> None:
    _, what = tried('echo "$HF_TOKEN $PYTHONPATH $*"')
    assert what == f"{HF_TOKEN} {ROOT}/workloads --recipe=mine"


def test_the_command_has_the_recipe_and_its_values() -> None:
    training = load({**A4_RAY, "llm-stacks:recipeSet": '{"training.seed": "7"}'}).training
    options = make_parser().parse_args(training.trial_command[3:])
    assert (options.recipe, options.overrides) == ("gemma-3-4b-vision", ["training.seed=7"])


def test_a_failed_trial_is_a_problem_and_all_else_is_checked_too(
    good: GoodProject, google: GoogleServer, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{FAILED}' >&2\nexit 2\n")
    python.chmod(0o755)
    planned = replace(good.plan(NEUTRAL), trial_command=(str(python),))
    monkeypatch.setattr("operations.preflight.plan.load", lambda *_, **__: planned)
    words = ["preflight", "--stack", NEUTRAL, "--endpoint", google.address, "--json"]
    assert command(*words).status == 0
    ran = command(*words, "--trial")
    assert ran.status == 1
    assert {row["topic"] for row in json.loads(ran.out)["findings"]} >= {"project", "images", "trial"}


@pytest.mark.parametrize(
    ("command_of_trial", "text"),
    [
        ((), f"--trial: {NEUTRAL} trains no recipe of workloads/finetune"),
        (("no/such/python",), "--trial needs the training environment: make setup"),
    ],
)
def test_a_trial_that_cannot_begin_is_told_in_one_line(
    command_of_trial: tuple[str, ...],
    text: str,
    good: GoodProject,
    google: GoogleServer,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = replace(good.plan(NEUTRAL), trial_command=command_of_trial)
    monkeypatch.setattr("operations.preflight.plan.load", lambda *_, **__: planned)
    ran = command("preflight", "--stack", NEUTRAL, "--endpoint", google.address, "--trial")
    assert ran.status == 2
    (line,) = ran.err.splitlines()
    assert text in line
