"""The picture of how long a stack takes."""

from collections.abc import Iterator, Sequence
from typing import Final

import pygal
from pygal.style import Style

from rehearsal.schedule import Phase

_WIDTH: Final = 1200
_ROW_HEIGHT: Final = 18
_MARGINS: Final = 160
# Before its bar a row is empty, as long as the operation waits.
_COLOURS: Final = {
    "waiting": "transparent",
    "operation": "#8fb4d9",
    "critical path": "#d9722e",
}

# A row's label, and how many minutes of each kind are in it.
_Row = tuple[str, dict[str, float]]


def svg(title: str, phases: Sequence[Phase]) -> str:
    """The phases one below the other, each operation as a bar from its start to its end."""
    rows = [row for phase in phases for row in _rows(phase)]
    rows.reverse()  # the library draws from the bottom to the top
    chart = pygal.HorizontalStackedBar(
        js=[],
        no_prefix=True,
        disable_xml_declaration=True,
        width=_WIDTH,
        height=_ROW_HEIGHT * len(rows) + _MARGINS,
        title=title,
        x_title="minutes",
        legend_at_bottom=True,
        style=Style(colors=tuple(_COLOURS.values()), background="white", plot_background="white"),
    )
    chart.x_labels = [label for label, _ in rows]
    for kind in _COLOURS:
        chart.add("" if kind == "waiting" else kind, [lengths.get(kind) for _, lengths in rows])
    return chart.render()


def _rows(phase: Phase) -> Iterator[_Row]:
    yield f"{phase.title}: {phase.minutes:.3g} min", {}
    for step in phase.steps:
        kind = "critical path" if step in phase.critical_path else "operation"
        yield f"{step.name} {step.minutes:.3g}", {"waiting": step.start, kind: step.minutes}
