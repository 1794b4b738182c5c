"""Links and file names in documents lead to something."""

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOMS, ROOT, headings, links, words_in_code


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for line, link in links(document):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.is_relative_to(ROOT) and target.exists(), f"line {line}: {link}"
        if anchor:
            assert anchor in headings(target), f"line {line}: {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
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
