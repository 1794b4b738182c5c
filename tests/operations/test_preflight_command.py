"""The command `preflight`: what it prints, and how it ends."""

import json

import pytest

from tests.operations.conftest import Command, CommandResult
from tests.operations.good_project import GoodProject
from tests.operations.google_server import CUT, GoogleServer
from tests.operations.planned import planned_once


@pytest.fixture
def run(google: GoogleServer, command: Command) -> Command:
    def run(stack: str, *words: str) -> CommandResult:
        with planned_once():
            return command("preflight", "--stack", stack, "--endpoint", google.address, *words)

    return run


def test_the_command_shows_all_findings_and_its_status_says_how_it_went(
    good: GoodProject, run: Command
) -> None:
    good.plan("dev")
    ran = run("dev", "--json")
    shown = json.loads(ran.out)
    assert (ran.status, shown["stack"], shown["project"]) == (0, "dev", "my-project")
    assert {row["topic"] for row in shown["findings"]} >= {"project", "quotas", "images"}
    good.project(billing=False)
    ran = run("dev")
    assert ran.status == 1
    assert "billing" in ran.out and "1 problem" in ran.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a5-ray"], "there is no stack a5-ray; known: a4-accelerate"),
        (["dev"], "stack dev has no value for gcp:project: pulumi config set gcp:project VALUE"),
        (["dev", "--set", "gcp:project=my-project", "--set", "maxRunHours=0"], "maxRunHours: '0'"),
        (["dev", "--set", "nonsense"], "--set nonsense: write key=value"),
    ],
    ids=["no such stack", "no project", "bad setting", "bad option"],
)
def test_a_command_that_cannot_look_says_why_without_a_traceback(
    words: list[str], text: str, command: Command
) -> None:
    ran = command("preflight", "--stack", *words)
    assert (ran.status, ran.out) == (2, "")
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_a_google_that_nobody_is_behind_is_told_in_a_line(google: GoogleServer, run: Command) -> None:
    google.fail_all(CUT)
    ran = run("dev")
    assert (ran.status, ran.out) == (2, "")
    assert "Google could not be asked: cloudresourcemanager.projects.get" in ran.err
    assert len(ran.err.splitlines()) == 1
