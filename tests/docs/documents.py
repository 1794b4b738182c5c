"""Reads the project's documents: commands, links, headings."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parent.parent.parent
WALKTHROUGH: Final = ROOT / "docs" / "walkthrough"
# The pages that the walkthrough adds are tried where they are added.
DOCUMENTS: Final = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if not any(path.is_relative_to(WALKTHROUGH / folder) for folder in ("files", "server"))
]
ROOMS: Final = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0].isalpha())
# Text in backticks that begins like this is a command to be tried.
_TRIED: Final = re.compile(r"(make|pulumi|(\.venv[\w-]*/bin/)?python) ")

_SHELL: Final = ("sh", "bash", "shell", "console")
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=.*")
_OPERATORS: Final = ("&&", "||", "|", ";", "&")


@dataclass(frozen=True)
class Command:
    """A command in a document.

    Args:
        document: The document.
        line: Its line, from 1. Commands in a block have the first line of the block.
        words: The program and its arguments, without assignments of variables before it.
    """

    document: Path
    line: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}: {' '.join(self.words)}"


@cache
def tokens(document: Path) -> list[Token]:
    """The document's tokens, including those of inline text."""
    all_tokens: list[Token] = []
    for token in MarkdownIt("commonmark").enable("table").parse(document.read_text()):
        for inline in token.children or ():
            inline.map = token.map
        all_tokens += [token, *(token.children or ())]
    return all_tokens


def blocks(document: Path) -> Iterator[tuple[int, str]]:
    """Every fenced block of shell commands with its first line."""
    for token in tokens(document):
        if token.type == "fence" and token.info.strip() in _SHELL:
            yield _line(token) + 1, token.content


def commands(document: Path) -> Iterator[Command]:
    """The commands in blocks, and those in inline text."""
    for line, text in blocks(document):
        for words in _split(text):
            yield Command(document, line, words)
    for token in tokens(document):
        if token.type == "code_inline" and _TRIED.match(token.content):
            for words in _split(token.content):
                yield Command(document, _line(token), words)


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and GitLab make them."""
    anchors: list[str] = []
    seen: Counter[str] = Counter()
    before = ""
    for token in tokens(document):
        if token.type == "inline" and before == "heading_open":
            text = "".join(child.content for child in token.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        before = token.type
    return set(anchors)


def links(document: Path) -> Iterator[tuple[int, str]]:
    """Every link with its line."""
    for token in tokens(document):
        if token.type == "link_open":
            yield _line(token), str(token.attrs["href"])


def words_in_code(document: Path) -> Iterator[tuple[int, str]]:
    """Every inline text in backticks, with its line."""
    for token in tokens(document):
        if token.type == "code_inline":
            yield _line(token), token.content


def _line(token: Token) -> int:
    return (token.map or [0])[0] + 1


def _split(text: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of a script. The content of `$(...)` is a command, too."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();&|")
        lexer.commenters = "#"
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _OPERATORS or set(word) <= set("()"):
                while words and _ASSIGNMENT.fullmatch(words[0]):
                    del words[0]
                if words:
                    yield tuple(takewhile(lambda word: word != ">", words))
                words = []
            else:
                words.append(word)
