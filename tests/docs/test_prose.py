"""Documents, docstrings and comments are plain English, and names say what a value is."""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.docs.documents import DOCUMENTS, ROOMS, ROOT
from tests.docs.prose import (
    RULES,
    Paragraph,
    Rule,
    code_paragraphs,
    document_paragraphs,
    faults,
    name_faults,
    semicolon_faults,
)


def files_by_place() -> dict[str, list[Path]]:
    """The Python files of every room. In `tests` every folder is a place of its own."""
    places = defaultdict(list)
    for room in ROOMS:
        depth = 2 if room == "tests" else 1
        for file in sorted((ROOT / room).rglob("*.py")):
            folders = file.relative_to(ROOT).parent.parts
            places["/".join(folders[:depth])].append(file)
    return places


FILES: Final = files_by_place()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_is_plain_english(document: Path) -> None:
    paragraphs = list(document_paragraphs(document))
    lines = faults(paragraphs) + semicolon_faults(paragraphs)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("place", FILES)
def test_docstrings_and_comments_are_plain_english_and_names_are_nouns(place: str) -> None:
    paragraphs = [paragraph for file in FILES[place] for paragraph in code_paragraphs(file)]
    names = [fault for file in FILES[place] for fault in name_faults(file)]
    lines = faults(paragraphs) + semicolon_faults(paragraphs) + names
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_example_of_a_rule_breaks_it_and_its_rewrite_does_not(rule: Rule) -> None:
    before, after = rule.example.split(" -> ")
    assert any(map(rule.breaks, Paragraph(ROOT, 1, before.strip('"')).sentences()))
    assert not any(map(rule.breaks, Paragraph(ROOT, 1, after.strip('"')).sentences()))


def test_names_that_say_nothing_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(
        "def made(given):\n    for each in given:\n        said = each\n    return [found for found in given]"
    )
    assert len(name_faults(file)) == 5
