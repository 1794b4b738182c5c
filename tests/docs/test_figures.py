"""The minutes that the pages of the stacks state are those that `--clock` computes."""

import re

import pytest

from engine.project import ROOT, known_stacks
from rehearsal.schedule import phases
from tests import plans

_STATED = re.compile(
    r"\| `up`[^|]*\| (?P<first>[\d.]+) minutes with the image's first build, (?P<again>[\d.]+) once it exists"
)
_STATING = {
    stack: found
    for stack in known_stacks()
    if (page := ROOT / "docs" / "stacks" / f"{stack}.md").exists()
    and (found := _STATED.search(page.read_text()))
}


def test_pages_state_minutes() -> None:
    assert _STATING


@pytest.mark.parametrize("stack", _STATING)
def test_stated_minutes_are_computed_ones(stack: str) -> None:
    first = plans.shipped(stack).resources
    again = [resource for resource in first if not resource.type.endswith("cloudbuild:Build")]
    for name, resources in (("first", first), ("again", again)):
        up, _ = phases(resources)
        assert float(_STATING[stack][name]) == pytest.approx(up.minutes, abs=0.051)
