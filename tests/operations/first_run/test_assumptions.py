"""Assumptions about the cloud are in one file, and code that relies on one cites it."""

import re
from collections.abc import Iterator

import pytest

from engine.project import ROOT
from operations.assumptions.assumptions import FILE, assumptions
from operations.assumptions.measurements import MEASUREMENTS
from tests.checkout_files import checkout_files

CITED = re.compile(r"\bassumption(?:=\"|\s(?:# )?`?)([a-z0-9]+(?:-[a-z0-9]+)+)", re.IGNORECASE)


def citations() -> Iterator[tuple[str, str]]:
    """Files that cite an assumption, with its id. Tests invent their own ids."""
    for name in checkout_files(":!tests", f":!{FILE.relative_to(ROOT)}"):
        path = ROOT / name
        if path.suffix in (".py", ".yaml", ".yml", ".md"):
            yield from ((name, id) for id in CITED.findall(path.read_text()))


def test_code_and_pages_cite_assumptions_that_there_are() -> None:
    assert [citation for citation in citations() if citation[1] not in assumptions()] == []


def test_every_assumption_is_cited_by_what_depends_on_it() -> None:
    assert assumptions().keys() - {id for _, id in citations()} == set()


def test_what_is_measured_is_an_assumption() -> None:
    assert MEASUREMENTS.keys() - assumptions().keys() == set()


@pytest.mark.parametrize("id", assumptions())
def test_an_assumption_says_all_that_there_is_to_say_and_when_and_where_it_was_read(id: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id)
    row = vars(assumptions()[id])
    assert all(isinstance(text, str) and text for text in row.values())
    assert re.match(r"\d{4}-\d\d-\d\d \S", row["source"])


def test_the_file_has_each_assumption_once_in_the_order_of_the_ids() -> None:
    ids = re.findall(r"^([^#\s].*):$", FILE.read_text(), re.MULTILINE)
    assert ids == sorted(assumptions())
