"""Draws a timeline: which pod holds which GPU, the fine-tune in Kueue's queue, and the loss.

The picture is an SVG of 830 pixels, the width that a forge gives it.
It follows the reader's light or dark theme.
"""

import math
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import Final

from rehearsal.running_pods.timeline import (
    ENDING,
    PREEMPTED,
    RUNNING,
    STARTING,
    WAITING,
    History,
    Span,
    Timeline,
    lanes,
)

WIDTH: Final = 830
_LEFT: Final = 130
_RIGHT: Final = 20
_TOP: Final = 34
_LANE: Final = 24
_NODE_GAP: Final = 8
_CHART: Final = 150
_LINE: Final = 20
_NUMBER: Final = 14

_STYLE: Final = """
text { font: 13px sans-serif; fill: #1f2328; }
.small { font-size: 12px; }
.bar { fill: #ffffff; }
.background { fill: #ffffff; } .lane { fill: #eff2f5; } .grid { stroke: #d1d9e0; } .mark { stroke: #59636e; }
.server { fill: #0969da; } .fine-tune { fill: #1a7f37; } .starts { opacity: 0.45; }
.ending { fill: #bc4c00; } .waits { fill: #818b98; } .preempted { fill: #cf222e; }
.loss { fill: none; stroke: #8250df; stroke-width: 2; } .pause { stroke-dasharray: 3 4; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .background { fill: #0d1117; } .lane { fill: #161b22; }
  .grid { stroke: #30363d; } .mark { stroke: #9198a1; } .loss { stroke: #ab7df8; }
  .server { fill: #1f6feb; } .fine-tune { fill: #238636; } .ending { fill: #bd561d; }
  .waits { fill: #656c76; } .preempted { fill: #da3633; }
}
"""
_LEGEND: Final = (
    ("server", "server runs"),
    ("fine-tune", "fine-tune trains"),
    ("fine-tune starts", "starts"),
    ("ending", "saves and ends"),
    ("waits", "waits for GPUs"),
    ("preempted", "preempted"),
)


def draw(timeline: Timeline) -> str:
    """The SVG."""
    return _Drawing(timeline).svg()


class _Drawing:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._lanes = lanes(timeline)
        self._length = max(timeline.length, 1.0)
        nodes = len({node for node, _ in self._lanes})
        self._queue = _TOP + len(self._lanes) * _LANE + nodes * _NODE_GAP
        self._pending = self._queue + _LANE + 2
        self._chart = self._pending + _LANE + 24
        self._bottom = self._chart + _CHART

    def svg(self) -> str:
        """All of it."""
        height = self._bottom + 38 + _LINE * (len(self._timeline.notes) + 1)
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}">',
            f"<style>{_STYLE}</style>",
            '<rect class="background" width="100%" height="100%"/>',
            *self._axes(),
            *self._gpus(),
            *self._rows_below(),
            *self._loss(),
            *self._notes(),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _x(self, second: float) -> float:
        return _LEFT + second / self._length * (WIDTH - _LEFT - _RIGHT)

    def _y(self, lane: int) -> float:
        nodes_above = len({node for node, _ in self._lanes[: lane + 1]}) - 1
        return _TOP + lane * _LANE + nodes_above * _NODE_GAP

    def _axes(self) -> Iterator[str]:
        step = _round_step(self._length / 8)
        for second in range(0, int(self._length) + 1, step):
            x = self._x(second)
            yield f'<path class="grid" d="M{x:.1f} {_TOP}V{self._bottom}"/>'
            yield _text(x, self._bottom + 16, f"{second} s", "middle", "small")

    def _gpus(self) -> Iterator[str]:
        names = {
            node: number for number, node in enumerate(dict.fromkeys(node for node, _ in self._lanes), 1)
        }
        for lane, (node, gpu) in enumerate(self._lanes):
            y = self._y(lane)
            yield _bar("lane", _LEFT, WIDTH - _RIGHT, y)
            yield _text(_LEFT - 8, y + 15, f"node {names[node]}, GPU {gpu}", "end")
            for pod in self._timeline.pods.values():
                if pod.node == node and gpu < pod.gpus:
                    yield from self._bars(pod, y, [STARTING, RUNNING, ENDING], with_title=gpu == 0)

    def _rows_below(self) -> Iterator[str]:
        yield _text(_LEFT - 8, self._queue + 15, "Kueue's queue", "end")
        yield from self._bars(self._timeline.queue, self._queue, [WAITING, RUNNING, PREEMPTED])
        yield _text(_LEFT - 8, self._pending + 15, "pods that wait", "end")
        for pod in self._timeline.pods.values():
            yield from self._bars(pod, self._pending, [WAITING])

    def _bars(
        self, history: History, y: float, states: list[str], *, with_title: bool = False
    ) -> Iterator[str]:
        spans = [span for span in history.spans(self._length) if span.state in states]
        for span in spans:
            left, right = self._x(span.begin), self._x(span.end)
            yield _bar(_look(history, span), left, right, y)
        longest = max(spans, key=lambda span: span.end - span.begin, default=None)
        if with_title and longest:
            title = f"{history.title}, {history.ending}" if history.ending else history.title
            if self._x(longest.end) - self._x(longest.begin) > 7.5 * len(title):
                yield _text(self._x(longest.begin) + 6, y + 15, title, "start", "bar")

    def _loss(self) -> Iterator[str]:
        losses = sorted(self._timeline.losses.items())
        if not losses:
            return
        values = [loss for _, (_, loss) in losses]
        tick = _nice((max(values) - min(values)) / 3 or 1.0)
        low = math.floor(min(values) / tick) * tick
        high = math.ceil(max(values) / tick) * tick

        def y(loss: float) -> float:
            return self._bottom - (loss - low) / (high - low or 1.0) * (_CHART - 10)

        for number in range(round((high - low) / tick) + 1):
            loss = low + number * tick
            yield f'<path class="grid" d="M{_LEFT} {y(loss):.1f}H{WIDTH - _RIGHT}"/>'
            yield _text(_LEFT - 8, y(loss) + 4, f"{loss:g}", "end", "small")
        yield _text(_LEFT, self._chart - 4, f"training loss, steps 1 to {losses[-1][0]}", "start")
        points = [(self._x(second), y(loss)) for _, (second, loss) in losses]
        pause = (WIDTH - _LEFT) / 20
        for (x, height), (next_x, next_height) in pairwise(points):
            look = "loss pause" if next_x - x > pause else "loss"
            yield f'<path class="{look}" d="M{x:.1f} {height:.1f}L{next_x:.1f} {next_height:.1f}"/>'

    def _notes(self) -> Iterator[str]:
        label = 0.0
        for number, (second, text) in enumerate(self._timeline.notes, 1):
            x = self._x(second)
            # Notes of almost the same moment have their numbers beside each other.
            label = max(x, label + _NUMBER)
            yield f'<path class="mark" stroke-dasharray="3" d="M{x:.1f} {_TOP - 6}V{self._bottom}"/>'
            yield _text(label, _TOP - 12, str(number), "middle")
            yield _text(
                _LEFT, self._bottom + 18 + _LINE * (number + 1) - 14, f"{number}  {text} ({second:.0f} s)"
            )

    def _legend(self) -> Iterator[str]:
        y = self._bottom + 24 + _LINE * (len(self._timeline.notes) + 1)
        x = 12.0
        for look, text in _LEGEND:
            yield f'<rect class="{look}" x="{x:.0f}" y="{y - 11}" width="12" height="12"/>'
            yield _text(x + 17, y, text, "start", "small")
            x += 36 + 6.9 * len(text)


def _bar(look: str, left: float, right: float, y: float) -> str:
    return f'<rect class="{look}" x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="{_LANE - 3}"/>'


def _look(history: History, span: Span) -> str:
    role = "fine-tune" if history.role == "queue" else history.role
    looks = {ENDING: "ending", WAITING: "waits", PREEMPTED: "preempted", STARTING: f"{role} starts"}
    return looks.get(span.state, role)


def _round_step(seconds: float) -> int:
    """A number of seconds that a reader counts in."""
    return next((step for step in (1, 2, 5, 10, 15, 20, 30, 60, 120, 300) if step >= seconds), 600)


def _nice(size: float) -> float:
    """1, 2 or 5 times a power of ten, at least `size`."""
    power = 10 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size)


def _text(x: float, y: float, text: str, anchor: str = "start", look: str = "") -> str:
    shown = f' class="{look}"' if look else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
