"""Writes what a change of each setting replaces: `python -m tests.replacements`, about ten minutes.

Each setting changes on a living stack, in a preview. docs/settings.md has the result.
"""

import sys
from collections.abc import Iterable
from typing import Final

import yaml

import stacks
from docs_generator.settings_reference import REPLACEMENTS
from rehearsal.errors import RehearsalError
from stacks.settings.model import keys_of
from tests import plans
from tests.stacks.test_ways_back import changes, living, stand

_HEAD: Final = (
    "# What a change of each key replaces, by scenario: `python -m tests.replacements` writes it.\n"
)
# Values of a key that are tried.
_MOST: Final = 2


def main(names: Iterable[str]) -> None:
    """Writes the file, with new results for these stacks, or for all."""
    known = yaml.safe_load(REPLACEMENTS.read_text()) if REPLACEMENTS.exists() else {}
    for stack in names or plans.STACKS:
        known[stack] = {key: replaced(stack, key) for key in keys(stack)}
        REPLACEMENTS.write_text(f"{_HEAD}{yaml.safe_dump(known)}")


def keys(stack: str) -> list[str]:
    """The keys of a stack that are tried: every key but `scenario`."""
    return sorted(keys_of(stacks.scenario_modules()[stack].Settings).keys() - {"scenario"})


def replaced(stack: str, key: str) -> list[str]:
    """Types of the resources that a change of a key replaces or deletes."""
    rehearsal, types = living(stack), set[str]()
    for before, after in list(changes(stack, {}, key))[:_MOST]:
        try:
            stand(rehearsal, before)
            rehearsal.configure(after)
            types |= plans.replaced_types(rehearsal.preview())
        except RehearsalError as error:
            print(f"{stack} {key}: {error}", file=sys.stderr)
    return sorted(types)


if __name__ == "__main__":
    main(sys.argv[1:])
