"""The tests nearest to a file, derived from names and imports: `make test-near FILE=PATH`."""

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from engine.project import ROOT
from tests.checkout_files import checkout_files

# Files of a run. More of them are no longer near.
MOST: Final = 6
# Suites with an environment of their own, and the target that makes it.
_ENVIRONMENTS: Final = {
    "tests/workloads": (".venv-training", "setup"),
    "tests/maxtext": (".venv-maxtext", "test-maxtext"),
}
# The tests of this module. They name files of every room.
_OWN: Final = "tests/test_near.py"
# Suites that need built programs or large environments. They come last.
_LARGE: Final = ("tests/control_plane", "tests/pods", "tests/serving", "tests/review")


@dataclass(frozen=True, kw_only=True)
class Near:
    """A test file that is near.

    Attributes:
        rank: How near, from 0: by its name, its imports, a part of its name, its text, modules in between.
        file: Its path from the root.
        reason: Why it is near.
    """

    rank: int
    file: str
    reason: str


@cache
def code_files() -> tuple[str, ...]:
    """The modules of the tree that have code. Those of tests are not among them."""
    return tuple(
        name
        for name in checkout_files("*.py")
        if not name.startswith(("tests/", "docs/", ".")) and _tree(name).body[1:]
    )


@cache
def _test_files() -> tuple[str, ...]:
    return tuple(checkout_files("tests/**/test_*.py", "tests/test_*.py"))


@cache
def _helpers() -> dict[str, str]:
    """The modules of tests that are no tests, by the names of their imports."""
    names = {}
    for file in checkout_files("tests/*.py"):
        if file not in _test_files():
            names |= {_dotted(file): file, Path(file).stem: file}
    return names


def near(file: str) -> list[Near]:
    """The test files near a file of the checkout, the nearest first."""
    if file in _test_files():
        return [Near(rank=0, file=file, reason="it is a test")]
    ranked: dict[str, Near] = {}
    for rank, test, reason in list(_links(file)) or list(_distant(file)):
        ranked.setdefault(test, Near(rank=rank, file=test, reason=reason))

    def order(entry: Near) -> tuple[int, bool, bool, int, str]:
        """By rank. Then small suites, the room's own tests, and those of few modules come first."""
        ours = {name for name in _imports(entry.file) if name.partition(".")[0] != "tests"}
        is_elsewhere = not entry.file.startswith(_mirrors(file))
        return entry.rank, entry.file.startswith(_LARGE), is_elsewhere, len(ours), entry.file

    return sorted(ranked.values(), key=order)[:MOST]


def _links(file: str) -> Iterator[tuple[int, str, str]]:
    """Rank, test file and reason of each link between a test and a file, the nearest first."""
    yield from _direct(file)
    own = [test for test in _test_files() if test.startswith(_mirrors(file))]
    words = _words(Path(file).stem)
    yield from ((2, test, "has its name among others") for test in own if words <= _words(Path(test).stem))
    name = _call(file) if file.endswith("__main__.py") else file if file.endswith(".py") else Path(file).name
    for test in _test_files():
        if test != _OWN and (file in _text(test) or name in _text(test)):
            yield 3, test, "names it"
    for kind in _classes(file):
        users = [test for test in own if kind in _vocabulary(test)]
        yield from ((4, test, f"names its {kind}") for test in users)


def _direct(file: str) -> Iterator[tuple[int, str, str]]:
    own = [test for test in _test_files() if test.startswith(_mirrors(file))]
    yield from ((0, test, "has its name") for test in own if Path(test).stem == f"test_{Path(file).stem}")
    yield from ((1, test, "imports it") for test in _importers(_names(file)))


def _distant(file: str) -> Iterator[tuple[int, str, str]]:
    """The tests of what imports a file, over as few modules in between as there must be."""
    before, reached, rank = {file}, [file], 5
    tests: list[tuple[int, str, str]] = []
    while reached and not tests:
        names = frozenset[str]().union(*map(_names, reached))
        reached = [middle for middle in code_files() if middle not in before and names & _imports(middle)]
        before |= {*reached}
        tests = [(rank, test, f"is near {middle}") for middle in reached for _, test, _ in _direct(middle)]
        rank += 1
    yield from tests


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text()


@cache
def _vocabulary(file: str) -> frozenset[str]:
    """All words of a file."""
    return frozenset(re.findall(r"\w+", _text(file)))


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(_text(file))


def _words(stem: str) -> set[str]:
    return {*stem.removeprefix("test_").split("_")}


def _call(file: str) -> str:
    """How a command line starts a `__main__.py`, as the list of its words in Python."""
    return f'"-m", "{_dotted(file).removesuffix(".__main__")}"'


def _classes(file: str) -> list[str]:
    """The classes of a module that the whole project knows by a name of at least six letters."""
    if not file.endswith(".py"):
        return []
    names = [node.name for node in _tree(file).body if isinstance(node, ast.ClassDef)]
    return [name for name in names if name[0] != "_" and len(name) > 5]


def _mirrors(file: str) -> tuple[str, ...]:
    """The folders with the tests of a room. Components are tested in the plans of stacks, too."""
    room, *folders = Path(file).parts
    if room == "workloads" and folders[0] in ("maxtext", "capacity_keeper"):
        room = folders[0]
    return (f"tests/{room}/", "tests/stacks/") if room == "components" else (f"tests/{room}/",)


def _dotted(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _names(file: str) -> frozenset[str]:
    """The names by which a module is imported, from each folder of pytest's `pythonpath`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = settings["tool"]["pytest"]["ini_options"]["pythonpath"]
    prefixes = ["" if root == "." else f"{root}/" for root in roots]
    return frozenset(_dotted(file.removeprefix(prefix)) for prefix in prefixes if file.startswith(prefix))


@cache
def _imports(file: str) -> frozenset[str]:
    """The names that a file imports. Helpers of tests count as a part of the test."""
    names: set[str] = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and "." in str(node.value):
            names.add(str(node.value))  # `-m room.module`
    return frozenset(names)


@cache
def _importers(names: frozenset[str]) -> tuple[str, ...]:
    """The test files that import a module, by themselves or by a helper."""
    helpers = {name for name, file in _helpers().items() if names & _imports(file)}
    wanted = names | helpers
    return tuple(test for test in _test_files() if wanted & _imports(test))


def run(files: Sequence[str], options: Sequence[str] = ()) -> int:
    """Runs the tests near these files. Returns the exit status.

    Args:
        files: Paths.
        options: More options of pytest.
    """
    names = [str(Path(file).absolute().resolve().relative_to(ROOT)) for file in files]
    if unknown := [name for name in names if not (ROOT / name).is_file()]:
        print(f"there is no file {unknown[0]} in {ROOT}", file=sys.stderr)
        return 2
    entries = [entry for name in names for entry in near(name)]
    chosen = dict.fromkeys(entry.file for entry in entries)
    for entry in entries:
        print(f"{entry.file}: {entry.reason}", flush=True)
    if not chosen:
        print(f"no test is near {', '.join(files)}; run `make test`", file=sys.stderr)
        return 2
    status = 0
    for suite in (*_ENVIRONMENTS, ""):
        environment, target = _ENVIRONMENTS.get(suite, (".venv", "setup"))
        tests = [test for test in chosen if _suite(test) == suite]
        if not tests:
            continue
        python = ROOT / environment / "bin/python"
        if not python.exists():
            print(f"{' '.join(tests)}: there is no {environment}; run `make {target}` first", file=sys.stderr)
            status = status or 2
            continue
        print(f"{environment}/bin/python -m pytest {' '.join(tests)}", flush=True)
        status = subprocess.call([python, "-m", "pytest", *tests, *options], cwd=ROOT) or status
    return status


def _suite(test: str) -> str:
    return next((suite for suite in _ENVIRONMENTS if test.startswith(suite)), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs the tests near files.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file of the checkout")
    sys.exit(run(parser.parse_args().files))
