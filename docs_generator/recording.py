"""Records what a rehearsal prints, as an animated SVG: `python -m docs_generator.recording`.

The picture is 830 pixels wide, the width that a forge gives it, and follows the reader's light or dark theme.
A viewer that shows no animation, and a reader who wants none, sees the last screen.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate, pairwise
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from engine.project import ROOT

STACK: Final = "a4-ray"
PICTURE: Final = ROOT / "docs" / "images" / "rehearsal.svg"

# Characters in a line and lines on the screen.
COLUMNS: Final = 100
_ROWS: Final = 24
# Pixels. A character of 13 pixels is 0.6 of them wide.
_WIDTH: Final = 830
_MARGIN: Final = 25
_CHARACTER: Final = 7.8
_LINE: Final = 18
_HEIGHT: Final = _ROWS * _LINE + 2 * _MARGIN
# Seconds that a line, the title of a phase and the last screen stay before the next line.
_LINE_SECONDS: Final = 0.1
_TITLE_SECONDS: Final = 1.2
_END_SECONDS: Final = 6.0

# The colours of a terminal by their numbers; the next eight are the same ones, brighter.
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #1f2328; }
.screen { fill: #f6f8fa; stroke: #d1d9e0; }
.dim { fill: #59636e; } .bold { font-weight: bold; }
.green { fill: #1a7f37; } .yellow { fill: #9a6700; } .magenta { fill: #8250df; } .red { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .screen { fill: #0d1117; stroke: #30363d; }
  .dim { fill: #9198a1; }
  .green { fill: #3fb950; } .yellow { fill: #d29922; } .magenta { fill: #ab7df8; } .red { fill: #f85149; }
}
@media (prefers-reduced-motion: reduce) { .lines { animation: none; } }
"""


def record(stack: str) -> list[Text]:
    """The command and the lines that it prints to a terminal, from a run.

    Raises:
        CalledProcessError: If the rehearsal fails.
    """
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm", "COLORTERM": "", "COLUMNS": str(COLUMNS)}
    output = subprocess.run(
        [sys.executable, "-m", "rehearsal", stack],
        cwd=ROOT,
        env={**os.environ, **terminal},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout
    command = Text(f"$ make rehearse STACK={stack}", style="bold")
    return [command, *map(Text.from_ansi, output.splitlines())]


def draw(lines: Sequence[Text]) -> str:
    """The recording as an SVG in which the lines appear one after the other."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            'role="img" xml:space="preserve">',
            f"<title>{escape(lines[0].plain.removeprefix('$ '))}, as a terminal shows it</title>",
            f"<style>{_animation(lines)}{_STYLE}</style>",
            f'<rect class="screen" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="6"/>',
            f'<svg y="{_MARGIN}" width="{_WIDTH}" height="{_ROWS * _LINE}">'
            f'<g class="lines" transform="translate(0 {_shift(len(lines))})">',
            *(_line(number, line) for number, line in enumerate(lines)),
            "</g></svg>",
            "</svg>",
            "",
        ]
    )


def recorded_lines(picture: str) -> list[str]:
    """The text of a recording, line by line."""
    rows = re.findall(r"<text .*?</text>", picture)
    return [unescape(re.sub("<[^>]*>", "", row)) for row in rows]


def _line(number: int, line: Text) -> str:
    line = line.copy()
    line.truncate(COLUMNS, overflow="ellipsis")
    length = cell_len(line.plain) * _CHARACTER
    position = f'x="{_MARGIN}" y="{number * _LINE + 13}" textLength="{length:.1f}"'
    return f"<text {position}>{''.join(_spans(line))}</text>"


def _spans(line: Text) -> Iterator[str]:
    """The parts of a line that have one style each."""
    marks = sorted({0, len(line), *(mark for span in line.spans for mark in (span.start, span.end))})
    for start, end in pairwise(marks):
        styles = [line.style, *(span.style for span in line.spans if span.start <= start < span.end)]
        text = escape(line.plain[start:end], quote=False)
        names = " ".join(sorted({name for style in styles for name in _classes(style)}))
        yield f'<tspan class="{names}">{text}</tspan>' if names else text


def _classes(style: str | Style) -> Iterator[str]:
    """The picture's names for a terminal's style."""
    style = Style.parse(style) if isinstance(style, str) else style
    if style.color:
        yield _COLOURS[(style.color.number or 0) % 8]
    if style.bold:
        yield "bold"
    if style.dim:
        yield "dim"


def _animation(lines: Sequence[Text]) -> str:
    """The style that moves the lines up, one at a time."""
    pauses = [_TITLE_SECONDS if line.plain.endswith("──") else _LINE_SECONDS for line in lines]
    pauses[-1] = _END_SECONDS
    total = sum(pauses)
    starts = [0.0, *accumulate(pauses)][:-1]
    frames = [
        f"{100 * start / total:.2f}% {{ transform: translateY({_shift(number)}px); }}"
        for number, start in enumerate(starts, 1)
    ]
    frames.append(f"100% {{ transform: translateY({_shift(len(lines))}px); }}")
    keyframes = "\n".join(frames)
    return (
        f"\n.lines {{ animation: scroll {total:.1f}s step-end infinite; }}"
        f"\n@keyframes scroll {{\n{keyframes}\n}}"
    )


def _shift(shown: int) -> int:
    """Pixels from the top to the first line when the line `shown` is at the bottom of the screen."""
    return (_ROWS - shown) * _LINE


def main() -> None:
    """Runs the rehearsal and writes the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m docs_generator.recording",
        description=f"Rehearses {STACK} and writes what it prints to {PICTURE.relative_to(ROOT)}.",
    )
    parser.parse_args()
    PICTURE.write_text(draw(record(STACK)), encoding="utf-8")
    print(f"{PICTURE}: written")


if __name__ == "__main__":
    main()
