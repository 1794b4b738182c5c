"""The messages of ours that docs/troubleshooting.md explains are in the code."""

import re
from typing import Final

import pytest

from tests.docs.documents import ROOMS, ROOT

PAGE: Final = ROOT / "docs" / "troubleshooting.md"


def our_texts() -> list[str]:
    """The messages in the first column of the section on our own."""
    section = PAGE.read_text().partition("## Said by this program\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row)]


@pytest.fixture(scope="module")
def code() -> str:
    """All code, with strings that span lines joined."""
    rooms = [room for room in ROOMS if room != "tests"]
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    text = "\n".join(path.read_text() for path in [*files, ROOT / "Makefile"])
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize("text", our_texts())
def test_the_code_says_what_the_page_explains(text: str, code: str) -> None:
    said = ".*".join(rf"{re.escape(part.strip())}" for part in text.split("...") if part.strip())
    assert re.search(said, code)


def test_the_page_has_texts_of_ours() -> None:
    assert len(our_texts()) > 20
