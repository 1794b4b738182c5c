"""The command `preflight`: what it prints, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests import plans
from tests.neutral_stacks import NEUTRAL
from tests.operations.conftest import HF_TOKEN, Command, CommandResult
from tests.operations.good_project import GoodProject
from tests.operations.google_server import CUT, GoogleServer
from tests.operations.planned import planned_once, settings_of


@pytest.fixture
def run(google: GoogleServer, command: Command) -> Command:
    def run(stack: str, *words: str) -> CommandResult:
        with planned_once():
            return command("preflight", "--stack", stack, "--endpoint", google.address, *words)

    return run


def test_the_command_shows_all_findings_and_its_status_says_how_it_went(
    good: GoodProject, run: Command
) -> None:
    good.plan(NEUTRAL)
    ran = run(NEUTRAL, "--json")
    shown = json.loads(ran.out)
    assert (ran.status, shown["stack"], shown["project"]) == (0, NEUTRAL, "my-project")
    assert {row["topic"] for row in shown["findings"]} >= {"project", "quotas", "images"}
    good.project(billing=False)
    ran = run(NEUTRAL)
    assert ran.status == 1
    assert "billing" in ran.out and "1 problem" in ran.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a5-ray"], "there is no stack a5-ray; known: a4-accelerate"),
        ([NEUTRAL], "stack neutral has no value for gcp:project: pulumi config set gcp:project VALUE"),
        ([NEUTRAL, "--set", "nonsense"], "--set nonsense: write key=value"),
    ],
    ids=["no such stack", "no project", "bad option"],
)
def test_a_command_that_cannot_look_says_why_without_a_traceback(
    words: list[str], text: str, command: Command
) -> None:
    ran = command("preflight", "--stack", *words)
    assert (ran.status, ran.out) == (2, "")
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_a_setting_that_the_program_rejects_is_told_as_the_program_says_it(command: Command) -> None:
    stack = plans.stacks_with("maxRunHours")[0]
    settings = [f"--set={setting}" for setting in settings_of(stack, "maxRunHours=0")]
    ran = command("preflight", "--stack", stack, *settings)
    assert (ran.status, ran.out) == (2, "")
    assert "maxRunHours: '0'" in ran.err and "Traceback" not in ran.err


def test_a_google_that_nobody_is_behind_is_told_in_a_line(google: GoogleServer, run: Command) -> None:
    google.fail_all(CUT)
    ran = run(NEUTRAL)
    assert (ran.status, ran.out) == (2, "")
    assert "Google could not be asked: cloudresourcemanager.projects.get" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_fit_computes_the_memory_of_a_recipe_whose_memory_is_not_known(
    good: GoodProject, google: GoogleServer, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program is computed again with the figures, so that its warning goes."""
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$HF_TOKEN $*" >>{log}\n')
    python.chmod(0o755)
    known = good.plan(NEUTRAL)
    unknown = replace(known, fit_command=(str(python), "--recipe=mine"), warnings=("not known",))
    plans = iter([unknown, known, known])
    monkeypatch.setattr("operations.preflight.plan.load", lambda *_, **__: next(plans))
    words = ["preflight", "--stack", NEUTRAL, "--endpoint", google.address, "--fit", "--json"]
    ran = command(*words)
    assert ran.status == 0 and "not known" not in ran.out
    assert log.read_text() == f"{HF_TOKEN} --recipe=mine\n"
    # Nothing is computed twice.
    assert command(*words).status == 0
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo Loading >&2; echo 'error: lora.target_modules x matches no module' >&2; exit 2", "matches no"),
        ("exit 137", "the memory cannot be computed"),
        (None, "--fit needs the training environment: make setup"),
    ],
)
def test_memory_that_cannot_be_computed_is_one_line(
    script: str | None,
    text: str,
    good: GoodProject,
    google: GoogleServer,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    python = tmp_path / "python"
    if script:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    unknown = replace(good.plan(NEUTRAL), fit_command=(str(python),))
    monkeypatch.setattr("operations.preflight.plan.load", lambda *_, **__: unknown)
    ran = command("preflight", "--stack", NEUTRAL, "--endpoint", google.address, "--fit")
    assert ran.status == 2
    (line,) = ran.err.splitlines()
    assert text in line
