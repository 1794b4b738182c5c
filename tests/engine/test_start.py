"""A command starts in any surroundings, or says in one line what is missing."""

import os
import subprocess
import sys

import pytest

from engine import start
from engine.project import ROOT, known_stacks, stack_file
from engine.start import ready

STACK = known_stacks()[0]
COMMANDS = (f"operations cost --stack {STACK}", f"rehearsal {STACK}", "engine")
# Without the folder in which a virtual environment has its packages.
BARE = [sys.executable, "-S", "-m"]


def run(*words: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'{before}exec "$0" "$@"'] if before else []
    done = subprocess.run(
        [*shell, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_environment_a_line_says_how_it_is_made(command: str) -> None:
    done = run(*BARE, *command.split())
    (line,) = done.stderr.splitlines()
    name = command.split()[0]
    assert done.returncode == 2 and line.startswith(f"{name}: {sys.executable} has no package ")
    assert line.endswith(f"; run `make setup`, then .venv/bin/python -m {name}")


def test_a_python_that_is_too_old_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "_OLDEST", (99, 0))
    with pytest.raises(SystemExit, match="2"), ready("operations"):
        pass
    assert "operations: this Python is 3." in capsys.readouterr().err


def test_a_limit_of_open_files_that_is_too_low_is_raised_or_said() -> None:
    rehearse = (sys.executable, "-m", "rehearsal", "nowhere")
    (line,) = run(*rehearse, before="ulimit -n 20; ").stderr.splitlines()
    assert line == "rehearsal: a process may have 20 open files here, and 128 are needed; ulimit -n 4096"
    (line,) = run(*rehearse, before="ulimit -S -n 20; ").stderr.splitlines()
    assert line.startswith("rehearsal nowhere: there is no stack nowhere")


def test_a_rehearsal_runs_with_what_others_left_in_the_shell_and_with_nobody_to_print_to() -> None:
    done = run(
        *(sys.executable, "-m", "rehearsal", STACK, "--json"),
        before="exec <&- >&- ; ",
        PULUMI_CONFIG="oops",
        PYTHONWARNINGS="error",
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_configuration_that_is_left_in_the_shell_is_not_the_rehearsed_stacks() -> None:
    region = '{"gcp:region": "of another program"}'
    done = run(sys.executable, "-m", "rehearsal", STACK, "--json", PULUMI_CONFIG=region)
    assert done.returncode == 0 and stack_file(STACK)["gcp:region"] in done.stdout
