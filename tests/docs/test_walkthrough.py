"""New scenarios are their own files and nothing else: two of the walkthrough, and one of a stranger."""

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import copy_of_checkout
from tests.checkout_files import checkout_files
from tests.docs.documents import ROOT, WALKTHROUGH

FILES: Final = WALKTHROUGH / "files"
SERVER: Final = WALKTHROUGH / "server"
# Its own script on CPUs, in another region, without a recipe, a bucket, a build or a dashboard.
FOREIGN: Final = ROOT / "tests" / "stacks" / "foreign"
PAGE: Final = WALKTHROUGH / "README.md"
# What `make docs` writes anew when there is another stack.
GENERATED: Final = {".gitlab-ci.yml", "README.md", "docs/settings.md", "docs/in-a-company.md"}
# They look at all stacks at once.
OF_ALL_STACKS: Final = (
    *("test_the_table_of_a_stack", "test_a_topic_of_several_scenarios"),
    *("test_documents", "test_changelog", "without_a_stack"),
)
# Commands in one process: to start one takes longer than what it does.
EACH = """
import runpy, sys

for stack in sys.argv[1:]:
    sys.argv = ["rehearsal", stack]
    try:
        runpy.run_module("rehearsal", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        assert not ended.code, ended
"""
# The targets of `make test-infrastructure`, and this file, which would run itself.
OTHERS: Final = (
    "control_plane",
    "docs/test_walkthrough.py",
    "maxtext",
    "pods",
    "review",
    "serving",
    "workloads",
)
CHECKS: Final = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("ty", "check"),
    ("lint-imports", "--no-logo"),
    ("vulture",),
)


@pytest.fixture
def name() -> str:
    """A name that nobody can have prepared for, in place of `l4-batch`."""
    return f"my-{secrets.token_hex(3)}"


@pytest.fixture
def stacks(name: str) -> tuple[str, ...]:
    return (name, "l4-server", "cpu-primes")


@pytest.fixture
def checkout(tmp_path: Path, name: str) -> Path:
    """A copy of the checkout with the files of all three scenarios."""
    copy_of_checkout(tmp_path)
    for folder in (".tools", ".venv"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    add(tmp_path, FILES, lambda text: rename(text, name))
    add(tmp_path, SERVER, str)
    add(tmp_path, FOREIGN, str)
    # Some tests ask git which files there are.
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def add(copy: Path, added: Path, new_name: Callable[[str], str]) -> None:
    """Adds the files of a folder to a copy of the checkout, renamed."""
    for path in filter(Path.is_file, added.rglob("*")):
        if "__pycache__" not in path.parts:
            put(copy / new_name(path.relative_to(added).as_posix()), new_name(path.read_text()).encode())


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def rename(text: str, name: str) -> str:
    return text.replace("l4-batch", name).replace("l4_batch", name.replace("-", "_"))


def run(checkout: Path, *command: str) -> str:
    """What a command in the checkout prints."""
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def run_module(checkout: Path, *arguments: str) -> str:
    return run(checkout, sys.executable, "-m", *arguments)


def run_tests(checkout: Path, *arguments: str) -> int:
    """The number of tests that pass. None may fail."""
    report = run_module(checkout, "pytest", "-o", "addopts=", "-p", "no:cacheprovider", *arguments)
    passed = re.search(r"(\d+) passed", report)
    assert passed, report
    return int(passed[1])


def generate(checkout: Path, stacks: tuple[str, ...]) -> None:
    """The commands of the page's step that generates the rest."""
    run_module(checkout, "tests.inventory", *stacks)
    run_module(checkout, "docs_generator")


def last_line(stack: str) -> str:
    """The last line of a stack's rehearsal, as the page shows it."""
    (shown,) = re.findall(rf"```text\n(rehearsal {stack}:.*)\n```", PAGE.read_text())
    return shown


@pytest.mark.slow
def test_they_are_rehearsed_as_the_page_shows(checkout: Path, name: str, stacks: tuple[str, ...]) -> None:
    lines = run(checkout, sys.executable, "-c", EACH, *stacks).splitlines()
    ends = {line.partition(":")[0]: line for line in lines if line.startswith("rehearsal ")}
    assert ends[f"rehearsal {name}"] == rename(last_line("l4-batch"), name)
    # Its job trains nothing, and its page says which output shows the log.
    state = json.loads((checkout / ".rehearsal" / name / "state.json").read_text())
    resources = state["deployment"]["resources"]
    outputs = next(item["outputs"] for item in resources if item["type"] == "pulumi:pulumi:Stack")
    (log,) = (output for output, command in outputs.items() if " logs " in command)
    assert "raining" not in log and f"`{log}`" in (checkout / "docs/stacks" / f"{name}.md").read_text()
    assert ends["rehearsal l4-server"] == last_line("l4-server")
    assert re.search(r"0 changed .*, 0 left$", ends["rehearsal cpu-primes"])


def test_what_holds_of_every_stack_holds_of_them_and_nothing_else_is_edited(
    checkout: Path, stacks: tuple[str, ...]
) -> None:
    generate(checkout, stacks)
    chosen = " or ".join((*stacks, *OF_ALL_STACKS))
    ignored = f"--ignore=tests/{OTHERS[1]}"
    assert run_tests(checkout, "tests/stacks", "tests/docs", ignored, "-k", chosen) > 150
    readme = (checkout / "README.md").read_text()
    assert not [stack for stack in stacks if f"docs/stacks/{stack}.md" not in readme]
    copies = {file: checkout / file for file in checkout_files()}
    changed = {file for file, copy in copies.items() if copy.read_bytes() != (ROOT / file).read_bytes()}
    assert changed <= GENERATED


@pytest.mark.slow
def test_every_test_passes_with_them_too(checkout: Path, stacks: tuple[str, ...]) -> None:
    generate(checkout, stacks)
    ignored = [f"--ignore=tests/{other}" for other in OTHERS]
    slow = ["tests/stacks", "tests/docs", *ignored, "--slow", "-k", " or ".join(stacks)]
    assert run_tests(checkout, *slow) > 200
    assert run_tests(checkout, "tests", *ignored, "--numprocesses=2", "--dist=worksteal") > 3000


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=" ".join)
def test_the_checks_of_every_commit_find_nothing_in_them(checkout: Path, check: tuple[str, ...]) -> None:
    run(checkout, str(ROOT / ".venv" / "bin" / check[0]), *check[1:])


def test_no_other_file_knows_of_them() -> None:
    search = ["git", "grep", "-nE", "(l4.?(batch|server)|cpu.primes)", "--", ":!docs", ":!tests"]
    assert not subprocess.run(search, cwd=ROOT, capture_output=True, check=False).stdout
