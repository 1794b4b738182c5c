"""Reads the project's prose: paragraphs of documents, docstrings and comments, and the rules that they keep.

The rules are the few of plain English that a program can judge. A reader judges the rest.
`python -m tests.docs.prose PATH...` prints what breaks a rule in documents, Python files or folders.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.documents import ROOT, tokens

# Words. Plain English has about 20 in a sentence.
LONGEST_SENTENCE: Final = 30
# The documents of kopf and of pinecone-byoc have under 1.7.
SEMICOLONS_PER_THOUSAND_WORDS: Final = 2

_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])[\"')]*\s+(?=[\"'(]*[A-Z0-9`])")
_WORD: Final = re.compile(r"[\w`'./-]*\w[\w`'./-]*")
_SECTION: Final = re.compile(r"(Args|Attributes|Raises|Returns|Yields):")
_ENTRY: Final = re.compile(r"\*{0,2}[\w., ]+: ")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, an item of a list or a cell of a table.

    Attributes:
        file: Where it stands.
        line: Its first line, from 1.
        text: Its text on one line, with `code` for code.
    """

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    def sentences(self) -> list[str]:
        """The sentences. The words after a colon are one, too, if they begin with a capital."""
        return _SENTENCE_END.split(self.text)


@dataclass(frozen=True)
class Rule:
    """What no sentence may do.

    Attributes:
        name: What a failure calls it.
        breaks: Whether a sentence breaks the rule.
        example: A sentence that broke it, and how it reads now.
    """

    name: str
    breaks: Callable[[str], object]
    example: str


def words(text: str) -> int:
    """How many words a text has. Code in backticks is one word."""
    return len(_WORD.findall(re.sub(r"`[^`]*`", "code", text)))


RULES: Final = (
    Rule(
        f"at most {LONGEST_SENTENCE} words in a sentence, one fact each",
        lambda sentence: words(sentence) > LONGEST_SENTENCE,
        '"The rehearsal creates a stack on a real Kubernetes control plane and runs what the manifests tell '
        'the pods to run, so that the trainer saves, is stopped and resumes on your own machine." -> "The '
        "rehearsal creates a stack on a real Kubernetes control plane. Pods run the manifests' commands. The "
        'trainer saves, stops and resumes."',
    ),
    Rule(
        'no sentence begins with "Of", "Over", "Whoever", "Whatever"',
        re.compile(r"[\"'(]*(Of|Over|Whoever|Whatever|Who) (?![^.]*\?)").match,
        '"Of any finished run, local or in a bucket, a command writes the same" -> '
        '"One command writes the same merged model for any finished run, local or in a bucket."',
    ),
    Rule(
        "the subject is a named thing",
        re.compile(
            r"(?i)\b(is|are|was|be) (that|those) of\b|\bwhoever\b|\bwhatever\b|\bthe one that\b"
        ).search,
        '"whoever makes a key may not use it by that" -> '
        '"Creating the key does not let you use it: grant this role to yourself too."',
    ),
    Rule(
        "verbs that a reader expects",
        re.compile(
            r"(?i)\b(is|are) in the way\b|\b(is|are) told to\b|\bmakes? this of\b|\bhas it that\b"
        ).search,
        '"of a fixed name it is in the way of the next `up`" -> '
        "\"If its name is fixed, the next `up` fails with 'already exists'.\"",
    ),
    Rule(
        "the field's terms: preempt, node pool",
        re.compile(r"(?i)\bpre-empt|\bnodepools?\b(?!`)").search,
        '"the fine-tune is pre-empted" -> "the fine-tune is preempted"',
    ),
)


# A name says what a value is: none of these does.
VAGUE_NAMES: Final = frozenset({"each", "found", "said", "given", "made", "told"})


def name_faults(file: Path) -> list[str]:
    """Where a Python file binds a name that does not say what the value is."""
    if file.suffix != ".py":
        return []
    places = []
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                pass
            case ast.arg(arg=name, lineno=line) | ast.FunctionDef(name=name, lineno=line):
                pass
            case _:
                continue
        if name in VAGUE_NAMES:
            places.append(f"{file}:{line}: `{name}` does not say what the value is")
    return places


def document_paragraphs(document: Path) -> Iterator[Paragraph]:
    """The prose of a document: headings, code blocks and pictures are left out."""
    before = ""
    for token in tokens(document):
        if token.type == "inline" and before != "heading_open":
            text = "".join(_plain(child.type, child.content) for child in token.children or ())
            yield Paragraph(document, (token.map or [0])[0] + 1, " ".join(text.split()))
        before = token.type


def _plain(kind: str, content: str) -> str:
    match kind:
        case "code_inline":
            return "`code`"
        case "softbreak" | "hardbreak":
            return " "
        case "text":
            return content
        case _:
            return ""


def code_paragraphs(file: Path) -> Iterator[Paragraph]:
    """The docstrings and comments of a Python file."""
    source = file.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield from _of_docstring(file, node.body[0].lineno, docstring)
    yield from _comments(file, source)


def _of_docstring(file: Path, first_line: int, docstring: str) -> Iterator[Paragraph]:
    text: list[str] = []
    start = first_line
    for number, raw in enumerate([*docstring.splitlines(), ""], first_line):
        line = raw.strip()
        begins = not line or _SECTION.fullmatch(line) or (raw.startswith("    ") and _ENTRY.match(line))
        if begins or re.match(r"[-*] |\d+\. ", line):
            if text:
                yield Paragraph(file, start, " ".join(text))
            text, start = [], number
        if line and not _SECTION.fullmatch(line):
            text.append(line)


def _comments(file: Path, source: str) -> Iterator[Paragraph]:
    """Comments. Those on successive lines are one paragraph."""
    text: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#!|# (noqa|ty:|type:|pragma)", token.string):
            continue
        line = token.start[0]
        if text and line != last + 1:
            yield Paragraph(file, start, " ".join(text))
            text = []
        if not text:
            start = line
        text.append(token.string.lstrip("# "))
        last = line
    if text:
        yield Paragraph(file, start, " ".join(text))


def faults(paragraphs: list[Paragraph]) -> list[str]:
    """What breaks a rule: where, which rule, the sentence and an example."""
    return [
        f"{paragraph}: {rule.name}\n  here: {sentence}\n  example: {rule.example}"
        for paragraph in paragraphs
        for sentence in paragraph.sentences()
        for rule in RULES
        if rule.breaks(sentence)
    ]


def semicolon_faults(paragraphs: list[Paragraph]) -> list[str]:
    """The paragraphs with a semicolon, where a text has more of them than plain English has."""
    places = [paragraph for paragraph in paragraphs if ";" in paragraph.text]
    count = sum(paragraph.text.count(";") for paragraph in places)
    allowed = (
        1 + SEMICOLONS_PER_THOUSAND_WORDS * sum(words(paragraph.text) for paragraph in paragraphs) // 1000
    )
    if count <= allowed:
        return []
    head = f"{count} semicolons where {allowed} are allowed; a semicolon is usually a full stop"
    return [head, *(f"{paragraph}: {paragraph.text}" for paragraph in places)]


def main(paths: list[str]) -> int:
    """Prints what breaks a rule in documents, Python files or folders. Returns 1 if something does."""
    lines: list[str] = []
    for path in map(Path.absolute, map(Path, paths)):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix == ".md":
                paragraphs = list(document_paragraphs(file))
            elif file.suffix == ".py":
                paragraphs = list(code_paragraphs(file))
            else:
                continue
            lines += faults(paragraphs) + semicolon_faults(paragraphs) + name_faults(file)
    print("\n".join(lines) or "plain")
    return 1 if lines else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prints what is not plain English in the paths.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a document, a Python file or a folder")
    sys.exit(main(parser.parse_args().paths))
