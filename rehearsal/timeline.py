"""The Gantt chart of a rehearsal, as SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from typing import Final

from engine.recorder import Interval

_NAMES: Final = 330
_WIDTH: Final = 760
_ROW: Final = 20
_TOP: Final = 54
_GAP: Final = 34
_TICKS: Final = 8
_STEPS: Final = (1, 2, 5, 10)

_STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #1f2933; }
  .title { font-size: 14px; font-weight: 600; }
  .axis { stroke: #d3dae1; stroke-width: 1; }
  .tick { fill: #66727e; font-size: 11px; }
  .bar { fill: #8fb4d9; }
  .critical { fill: #d9722e; }
  .failed { fill: #b3261e; }
  .on-path { font-weight: 600; }
"""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One operation of the rehearsal.

    Args:
        title: What it was.
        intervals: Its steps, in the unit of the chart.
        critical: Those on the critical path.
    """

    title: str
    intervals: Sequence[Interval]
    critical: Sequence[Interval]

    @property
    def length(self) -> float:
        """When the last step ended."""
        return max((interval.end for interval in self.intervals), default=0.0)


def svg(title: str, unit: str, phases: Sequence[Phase]) -> str:
    """The chart.

    Args:
        title: Heading.
        unit: Unit of the intervals, `min` or `s`.
        phases: The operations, one below the other, on one scale.
    """
    longest = max((phase.length for phase in phases), default=0.0) or 1.0
    parts: list[str] = []
    y = _TOP
    for phase in phases:
        parts += _phase(phase, unit, longest, y)
        y += _ROW * len(phase.intervals) + _ROW + _GAP
    width = _NAMES + _WIDTH + 90
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text class="title" x="12" y="24">{escape(title)}</text>\n'
        f'<rect class="critical" x="{width - 150}" y="13" width="12" height="12"/>'
        f'<text x="{width - 132}" y="24">critical path</text>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _phase(phase: Phase, unit: str, longest: float, y: int) -> Iterable[str]:
    scale = _WIDTH / longest
    bottom = y + _ROW * (len(phase.intervals) + 1)
    yield f'<text class="title" x="12" y="{y + 12}">{escape(phase.title)}: {phase.length:.3g} {unit}</text>'
    for tick in ticks(longest):
        x = _NAMES + tick * scale
        yield f'<line class="axis" x1="{x:.1f}" y1="{y + 16}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{y + 12}" text-anchor="middle">{tick:g} {unit}</text>'
    for row, interval in enumerate(sorted(phase.intervals, key=lambda each: (each.start, each.end)), start=1):
        yield from _bar(interval, unit, scale, y + _ROW * row, on_path=interval in phase.critical)


def _bar(interval: Interval, unit: str, scale: float, y: int, *, on_path: bool) -> Iterable[str]:
    x = _NAMES + interval.start * scale
    width = max((interval.end - interval.start) * scale, 1.5)
    kind = "failed" if interval.failed else "critical" if on_path else "bar"
    length = interval.end - interval.start
    span = f"{interval.start:.3g} to {interval.end:.3g} {unit}"
    tip = f"{interval.type} {interval.name}: {interval.operation}, {span}"
    name = escape(interval.name)
    emphasis = ' class="on-path"' if on_path else ""
    yield f'<text{emphasis} x="{_NAMES - 10}" y="{y + 14}" text-anchor="end">{name}</text>'
    yield (
        f'<rect class="{kind}" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2">'
        f"<title>{escape(tip)}</title></rect>"
    )
    yield f'<text class="tick" x="{x + width + 5:.1f}" y="{y + 14}">{length:.2g}</text>'


def ticks(longest: float) -> list[float]:
    """Round numbers from zero to `longest`, a handful of them."""
    magnitude = 10.0 ** floor(log10(longest / _TICKS))
    step = next(each * magnitude for each in _STEPS if longest / (each * magnitude) <= _TICKS)
    return [round(index * step, 9) for index in range(int(longest / step) + 1)]
