"""A new scenario consists of the walkthrough's own files and nothing else, under any name."""

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.checkout_files import checkout_files
from tests.docs.documents import ROOT, WALKTHROUGH

FILES = WALKTHROUGH / "files"
SERVER = WALKTHROUGH / "server"
PAGE = WALKTHROUGH / "README.md"
# What holds of every stack, and says so of this one.
TESTS = (
    "tests/stacks/invariants",
    "tests/stacks/test_inventories.py",
    "tests/stacks/test_faults.py",
    "tests/docs",
    "tests/operations/test_cost.py",
    "tests/operations/test_preflight.py",
)
GENERATED = {".gitlab-ci.yml", "README.md", "docs/settings.md"}


@pytest.fixture(scope="module")
def name() -> str:
    return f"my-{secrets.token_hex(3)}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A copy of the checkout with the walkthrough's files in it, renamed."""
    copy = tmp_path_factory.mktemp("checkout")
    fill(copy, FILES, lambda text: rename(text, name))
    return copy


def fill(copy: Path, added: Path, new_name: Callable[[str], str]) -> None:
    """Copies the checkout and adds the files of a folder, renamed."""
    for file in checkout_files():
        put(copy / file, (ROOT / file).read_bytes())
    (copy / ".tools").symlink_to(ROOT / ".tools")
    for path in filter(Path.is_file, added.rglob("*")):
        put(copy / new_name(path.relative_to(added).as_posix()), new_name(path.read_text()).encode())


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def rename(text: str, name: str) -> str:
    return text.replace("l4-batch", name).replace("l4_batch", name.replace("-", "_"))


@pytest.fixture(scope="module")
def run(checkout: Path) -> Callable[..., str]:
    return partial(run_in, checkout)


def run_in(checkout: Path, *arguments: str) -> str:
    """What a module of the checkout prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def last_line(stack: str) -> str:
    """The last line of a stack's rehearsal, as the page shows it."""
    (shown,) = re.findall(rf"```text\n(rehearsal {stack}:.*)\n```", PAGE.read_text())
    return shown


def test_it_is_rehearsed_as_the_page_shows(run: Callable[..., str], checkout: Path, name: str) -> None:
    assert run("rehearsal", name).splitlines()[-1] == rename(last_line("l4-batch"), name)
    # Its job trains nothing, and its page says which output shows the log.
    state = json.loads((checkout / ".rehearsal" / name / "state.json").read_text())
    resources = state["deployment"]["resources"]
    outputs = next(item["outputs"] for item in resources if item["type"] == "pulumi:pulumi:Stack")
    (log,) = (output for output, command in outputs.items() if " logs " in command)
    assert "raining" not in log and f"`{log}`" in (checkout / "docs/stacks" / f"{name}.md").read_text()


def test_the_server_is_rehearsed_as_the_page_shows(tmp_path: Path) -> None:
    fill(tmp_path, SERVER, str)
    assert run_in(tmp_path, "rehearsal", "l4-server").splitlines()[-1] == last_line("l4-server")


def test_the_invariants_hold_without_a_bucket_and_a_token_and_in_another_region(tmp_path: Path) -> None:
    fill(tmp_path, SERVER, str)
    stack_file = tmp_path / "Pulumi.l4-server.yaml"
    text = stack_file.read_text()
    assert "us-central1" in text
    stack_file.write_text(text.replace("us-central1", "europe-west4"))
    invariants = ("tests/stacks/invariants", "-k", "l4-server")
    report = run_in(tmp_path, "pytest", "-o", "addopts=", "-p", "no:cacheprovider", *invariants)
    passed = re.search(r"(\d+) passed", report)
    assert passed and int(passed[1]) >= 25, report


@pytest.mark.slow
def test_what_holds_of_every_stack_holds_of_it(run: Callable[..., str], checkout: Path, name: str) -> None:
    run("tests.inventory", name)
    run("docs_generator")
    report = run("pytest", "-o", "addopts=", "-p", "no:cacheprovider", *TESTS, "-k", name)
    passed = re.search(r"(\d+) passed", report)
    assert passed and int(passed[1]) > 25, report
    assert f"docs/stacks/{name}.md" in (checkout / "README.md").read_text()


def test_nothing_else_was_edited(checkout: Path) -> None:
    changed = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("**/*.*")
        if path.is_file() and (checkout / path.relative_to(ROOT)).is_file()
        if path.read_bytes() != (checkout / path.relative_to(ROOT)).read_bytes()
    }
    assert changed <= GENERATED


def test_no_other_file_knows_of_it() -> None:
    search = ["git", "grep", "-nE", "l4.?(batch|server)", "--", ":!docs", ":!tests"]
    assert not subprocess.run(search, cwd=ROOT, capture_output=True, check=False).stdout
