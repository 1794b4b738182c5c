"""The loss curve as a picture."""

from pathlib import Path
from typing import Final

import pygal

from operations.errors import OperationError
from operations.status.metrics import Progress

_SUFFIX: Final = ".svg"
_WIDTH: Final = 900
_HEIGHT: Final = 480


def draw(progress: Progress, file: Path) -> None:
    """Writes an SVG that stands alone: nothing is fetched when it is shown.

    Raises:
        OperationError: When the file cannot be written.
    """
    chart = pygal.XY(
        js=[],
        width=_WIDTH,
        height=_HEIGHT,
        title=progress.run,
        x_title="step",
        y_title="loss",
        show_dots=False,
        legend_at_bottom=True,
    )
    chart.add("training", [*progress.losses])
    if progress.evaluations:
        chart.add("evaluation", [*progress.evaluations], show_dots=True)
    try:
        file.write_bytes(chart.render())
    except OSError as error:
        raise OperationError(f"{file}: {error.strerror}") from None


def check(file: Path) -> None:
    """Refuses, before anything is looked at, a file that is no picture that can be drawn.

    Raises:
        OperationError: With the remedy.
    """
    if file.suffix != _SUFFIX:
        raise OperationError(f"--plot {file}: the picture is an SVG; name a file that ends in {_SUFFIX}")
