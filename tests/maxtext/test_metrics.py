"""The metrics of a run."""

from maxtext_driver.metrics import FIGURES, line, progress_of


def test_the_line_for_people_tells_speed_per_chip_and_the_time_left() -> None:
    figures = (2.0, 1e-4, 1.0, 90.0, 419.5, 7243.4)
    progress = progress_of(7, 10, dict(zip(FIGURES.values(), figures, strict=True)))
    assert line(progress) == (
        "step 8/10 loss 2.0000 lr 1.00e-04 grad_norm 1.000 seconds 90.000 TFLOP/s/chip 419.5 "
        "tokens/s/chip 7243 left 3:00"
    )
