"""Line charts of a run's log, as SVG in the colours of the page."""

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

import pygal
from pygal.style import Style

Point = tuple[float, float]

# More points than this do not show at the width of a page.
_MOST_POINTS: Final = 600
_SVG: Final = "http://www.w3.org/2000/svg"
_STYLE: Final = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--text)",
    foreground_strong="var(--text)",
    foreground_subtle="var(--faint)",
    guide_stroke_color="var(--line)",
    major_guide_stroke_color="var(--line)",
    colors=("var(--first)", "var(--second)"),
    font_family="sans-serif",
    label_font_size=12,
    major_label_font_size=12,
    title_font_size=15,
    legend_font_size=13,
)


def chart(title: str, series: Mapping[str, Sequence[Point]]) -> str:
    """The SVG of a chart over the steps of a run, with a line for each series by its name.

    It has no script, and names no address that a browser would load.
    """
    drawing = pygal.XY(
        style=_STYLE,
        title=title,
        js=(),
        width=900,
        height=300,
        show_dots=False,
        show_legend=len(series) > 1,
        legend_at_bottom=True,
        allow_interruptions=True,
        disable_xml_declaration=True,
    )
    for name, points in series.items():
        drawing.add(name, _thin(points), show_dots=len(points) == 1)
    tree = ElementTree.fromstring(drawing.render())
    for definitions in tree.findall(f"{{{_SVG}}}defs"):
        for script in definitions.findall(f"{{{_SVG}}}script"):
            definitions.remove(script)
    tree.set("role", "img")
    tree.set("aria-label", title)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(tree, encoding="unicode")


def _thin(points: Sequence[Point]) -> list[Point]:
    """At most about `_MOST_POINTS` of the points, the last one always."""
    between = -(-len(points) // _MOST_POINTS)
    return [*points[: -1 : between or 1], *points[-1:]]
