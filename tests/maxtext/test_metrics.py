"""The metrics of a run."""

from maxtext_driver.metrics import Progress


def progress(step: int) -> Progress:
    return Progress(
        step=step,
        steps=10,
        loss=2.0,
        learning_rate=1e-4,
        grad_norm=1.0,
        seconds=90.0,
        tflops_per_second_per_chip=419.5,
        tokens_per_second_per_chip=7243.4,
    )


def test_the_line_for_people_tells_speed_per_chip_and_the_time_left() -> None:
    assert progress(8).line().endswith("TFLOP/s/chip 419.5 tokens/s/chip 7243 left 3:00")
