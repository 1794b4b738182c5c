"""The commands of frameworks that the page of the stack own names."""

import json
import re

from engine.project import ROOT


def documented_command(program: str) -> list[str]:
    """The words of a program's command in the table of docs/stacks/own.md."""
    page = (ROOT / "docs/stacks/own.md").read_text()
    (words,) = re.findall(rf"^\| {re.escape(program)} \| `(\[.*?\])`", page, re.MULTILINE)
    return json.loads(words)
