"""The limits that `make tpu-compile` checks."""

from dataclasses import replace

from maxtext_driver.recipe import Recipe
from tpu_compile import report
from tpu_compile.report import Figures

SETTINGS = {"model_name": "llama3-8b", "max_target_length": 4096, "steps": 100}


def compiled(hbm_gib: float, received: int, tokens: int, **settings: object) -> report.Compiled:
    figures = Figures(
        hbm=int(hbm_gib * report.GIB),
        host=0,
        tokens=tokens,
        received={"all-gather": received},
        compile_seconds=1.0,
    )
    return report.Compiled(name="a", recipe=Recipe(maxtext={**SETTINGS, **settings}), figures=figures)


TUTORIAL = compiled(12, 12_000, 1000)


def test_a_recipe_that_fits_and_sends_a_third_per_token_passes() -> None:
    assert report.missed(compiled(29.6, 16_000, 4000), TUTORIAL) == []


def test_less_than_a_twentieth_of_the_memory_to_spare_is_missed() -> None:
    (problem,) = report.missed(compiled(29.7, 16_000, 4000), TUTORIAL)
    assert problem == "4.9% of HBM to spare; it must be 5%"


def test_more_than_a_third_of_the_traffic_is_missed_however_large_the_step() -> None:
    (problem,) = report.missed(compiled(20, 16_100, 4000), TUTORIAL)
    assert problem.startswith("0.335 of a's bytes per token")


def test_another_model_or_length_is_no_comparison() -> None:
    other = compiled(20, 1_000, 4000, max_target_length=2048)
    assert report.missed(other, TUTORIAL) == ["max_target_length is 2048 and 4096; it must be equal"]


def test_the_table_names_every_kind_of_traffic_that_was_counted() -> None:
    figures = replace(TUTORIAL.figures, received={"all-to-all": 3 * report.GIB})
    table = list(report.table(replace(TUTORIAL, figures=figures), TUTORIAL))
    assert "| of which all-to-all | 3.00 | 0.00 |" in table
