"""The recording in the README shows what a rehearsal prints today."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from rich.text import Text

from docs_generator import recording
from docs_generator.pages import README
from rehearsal.display import OperationLog
from rehearsal.lifecycle import PHASES
from rehearsal.session import Rehearsal

AGAIN = "the output has changed: `.venv/bin/python -m docs_generator.recording` records it anew"


@pytest.fixture(scope="module")
def recorded() -> list[str]:
    return recording.recorded_lines(recording.PICTURE.read_text())


def form(line: str) -> str:
    """A line without the names, numbers and digests that differ from run to run."""
    resource = re.match(r"( \+| ~|\+-) \S+  \S+$", line)
    if resource:
        return f"{resource[1]} NAME  TYPE"
    refusal = re.match(r"\S+: (refused on purpose), ", line)
    return f"NAME: {refusal[1]}" if refusal else re.sub(r"\d+", "N", line)


def test_the_readme_shows_the_recording() -> None:
    assert f"({recording.PICTURE.relative_to(README.parent)})" in README.read_text()


def test_the_recording_has_every_phase_in_its_order(recorded: list[str]) -> None:
    assert recorded[0] == f"$ make rehearse STACK={recording.STACK}"
    titles = [line.rstrip("─ ") for line in recorded if line.endswith("──")]
    assert tuple(titles) == PHASES, AGAIN


def test_the_recording_has_the_lines_of_a_run_of_today(recorded: list[str]) -> None:
    lines: list[str] = []
    with Rehearsal("dev", events=OperationLog(lines.append)) as rehearsal:
        for operation in (rehearsal.up, rehearsal.refresh, rehearsal.destroy):
            operation()
    forms = {form(line) for line in lines if not re.search(r": build |: success$|^execution ", line)}
    assert " + NAME  TYPE" in forms and "NAME: refused on purpose" in forms
    assert forms <= {form(line) for line in recorded}, AGAIN


def test_a_drawn_recording_is_xml_with_the_same_lines_and_the_same_every_time() -> None:
    lines = [Text("$ make"), Text("a <b> & c"), Text.from_ansi("\x1b[32m +\x1b[0m name"), Text("x" * 200)]
    picture = recording.draw(lines)
    assert picture == recording.draw(lines)
    ElementTree.fromstring(picture)
    *first, last = recording.recorded_lines(picture)
    assert first == ["$ make", "a <b> & c", " + name"]
    assert last == "x" * (recording.COLUMNS - 1) + "…"
    assert '<tspan class="green"> +</tspan>' in picture
