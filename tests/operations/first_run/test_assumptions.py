"""What was never seen on the cloud stands in one file, and whoever relies on it says so."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from engine.project import ROOT
from operations.errors import OperationError
from operations.first_run.assumptions import FILE, assumptions, parse
from operations.first_run.measurements import MEASUREMENTS

CITED = re.compile(r"\bassumption(?:=\"|\s(?:# )?`?)([a-z0-9]+(?:-[a-z0-9]+)+)")


def citations() -> Iterator[tuple[str, str]]:
    """Files that cite an assumption, with its id; tests make up their own."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        ":!tests",
        f":!{FILE.relative_to(ROOT)}",
    ]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix in (".py", ".yaml", ".yml", ".md"):
            yield from ((name, found) for found in CITED.findall(path.read_text()))


def test_code_and_pages_cite_assumptions_that_there_are() -> None:
    assert [each for each in citations() if each[1] not in assumptions()] == []


def test_an_assumption_that_nothing_relies_on_is_measured_or_goes() -> None:
    cited = {id for _, id in citations()}
    assert [
        row.id for row in assumptions().values() if row.id not in cited and row.id not in MEASUREMENTS
    ] == []


ROW = "- {id: a-b, assumed: it is so, source: 2026-11-22 a page, look: there}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {", "is no YAML"),
        ("a-b: {}", "the file: Input should be a valid list"),
        (f"{ROW}- it is so", "row 2: Input should be"),
        (ROW.replace("a-b", "A_b"), "A_b: id: String should match"),
        (ROW.replace("assumed: it is so, ", ""), "a-b: assumed: Field required"),
        (ROW.replace("2026-11-22 ", ""), "a-b: source: String should match"),
        (ROW.replace("look: ", "looks: "), "a-b: looks: Extra inputs are not permitted"),
        (ROW + ROW, "a-b: goes before a-b, once"),
        (ROW.replace("a-b", "b-b") + ROW, "a-b: goes before b-b, once"),
    ],
)
def test_a_row_that_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(OperationError, match=re.escape(said)):
        parse(text)
