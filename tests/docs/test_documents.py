"""What documents point to is there, and the messages that they explain are printed by the code."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOMS, ROOT, blocks, headings, links, words_in_code
from workloads.shared.exit_codes import EXIT_CODES, Retry

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@each_document
def test_a_shell_can_read_every_block(document: Path) -> None:
    for line, text in blocks(document):
        read = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert not read.returncode, f"line {line}: {read.stderr}"


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for line, link in links(document):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.is_relative_to(ROOT) and target.exists(), f"line {line}: {link}"
        assert not anchor or anchor in headings(target), f"line {line}: {link}"


@each_document
def test_files_that_are_named_exist(document: Path) -> None:
    for line, text in words_in_code(document):
        if re.fullmatch(rf"({'|'.join(ROOMS)})/([\w./-]*/)?([\w-]*\.\w+)?", text):
            assert (ROOT / text).exists(), f"line {line}: {text}"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), {ROOT / "README.md"}
    while waiting:
        here = waiting.pop()
        reached.add(here)
        targets = {(here.parent / link.partition("#")[0]).resolve() for _, link in links(here)}
        waiting |= {page for page in DOCUMENTS if targets & {page, page.parent}} - reached
    assert not set(DOCUMENTS) - reached


def test_the_table_of_rooms_is_what_import_linter_holds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms = set(settings["root_packages"])
    assert rooms == {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = dict(
        re.findall(r"^\| `(\w+)/` \|.*\| (.+) \|$", page.partition("\n## How a value")[0], re.MULTILINE)
    )
    assert set(table) == rooms
    forbidden: dict[str, set[str]] = {room: set() for room in rooms}
    for contract in settings["contracts"]:
        for room in contract.get("source_modules", ()):
            forbidden[room] |= set(contract["forbidden_modules"])
    for room, modules in forbidden.items():
        # Readers of recipes are exceptions to a contract that forbids their room.
        named = table[room].replace("readers of recipes in `workloads`", "")
        allowed = (
            rooms - {room, "benchmarks"} if named == "all of these" else set(re.findall(r"`(\w+)`", named))
        )
        assert rooms - {room} - modules == allowed, room


def test_the_table_of_decisions_has_every_decision_in_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| .+ \| \[(\d+)\]\(adr/(\d+)-[\w-]+\.md\) \|$", page, re.MULTILINE)
    assert [file for _, file in rows] == sorted(
        path.name[:4] for path in (ROOT / "docs" / "adr").glob("*.md")
    )
    assert all(int(number) == int(file) for number, file in rows)


def test_the_table_of_exit_codes_is_that_of_the_trainers() -> None:
    page = (ROOT / "docs" / "training" / "how-a-run-ends.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.*?) \|", page, re.MULTILINE)
    does = {
        Retry.NONE: "fails without a retry (`FailJob`)",
        Retry.COUNTED: "retries and counts it",
        Retry.NOT_COUNTED: "retries and does not count it (`Ignore`)",
    }
    assert [(int(code), text, job) for code, text, job in rows] == [
        (code, meaning.text, does[meaning.retry] if code else "ends") for code, meaning in EXIT_CODES.items()
    ]


def test_the_code_prints_the_messages_that_troubleshooting_explains() -> None:
    files = [path for room in ROOMS if room != "tests" for path in (ROOT / room).rglob("*.py")]
    text = "\n".join(path.read_text() for path in [*files, ROOT / "Makefile"])
    code = re.sub(r'"\s*\n\s*f?"', "", text)  # strings that span lines
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page.partition("## Said by this program\n")[2].partition("\n## ")[0]
    messages = [
        text
        for line in section.splitlines()
        if line.startswith("| ")
        for text in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    ]
    assert len(messages) > 20
    patterns = {
        message: ".*".join(re.escape(part.strip()) for part in message.split("...") if part.strip())
        for message in messages
    }
    assert not [message for message, pattern in patterns.items() if not re.search(pattern, code)]
