"""The limits that `make tpu-compile` checks."""

from dataclasses import replace

from benchmarks.tpu_compile import report
from benchmarks.tpu_compile.report import Figures
from maxtext_driver.recipe import Recipe

SETTINGS = {"model_name": "llama3-8b", "max_target_length": 4096, "steps": 100}


def compiled(hbm_gib: float, received: int, tokens: int, **settings: object) -> report.Compiled:
    figures = Figures(
        hbm=int(hbm_gib * report.GIB),
        host=0,
        tokens=tokens,
        received={"all-gather": received},
        operations=4e15,
        maxtext_operations=3e15,
        estimate=0.77,
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


def test_a_count_of_operations_that_cannot_be_is_missed() -> None:
    mine = compiled(20, 1_000, 4000)
    for wrong in (2.9e15, 4.6e15):
        (problem,) = report.missed(replace(mine, figures=replace(mine.figures, operations=wrong)), TUTORIAL)
        assert problem.endswith("times the operations that MaxText counts: the meter is wrong")


def test_another_model_is_no_comparison_and_sequences_of_another_length_are_compared_by_token() -> None:
    assert report.missed(compiled(20, 1_000, 4000, max_target_length=2048), TUTORIAL) == []
    (problem,) = report.missed(compiled(20, 1_000, 4000, model_name="gpt3-52k"), TUTORIAL)
    assert problem == "model_name is gpt3-52k and llama3-8b; it must be equal"


def test_an_estimate_is_told_with_its_error_where_somebody_measured_and_never_as_a_speed() -> None:
    tutorial = replace(TUTORIAL, name="llama3-8b-tutorial")
    _, mine, other = report.summary(TUTORIAL, tutorial)
    assert mine == "a: estimated 0.77 s a step, nobody measured it; an estimate is no speed"
    assert other.startswith("llama3-8b-tutorial: estimated 0.77 s a step, 0.70 of the 1.100 s published; ")


def test_bytes_from_other_slices_are_told_apart_because_no_estimate_has_them() -> None:
    of_two = replace(TUTORIAL, figures=replace(TUTORIAL.figures, from_slices=3 * report.GIB))
    assert "| received from other slices, GiB | 3.00 | 0.00 |" in list(report.table(of_two, TUTORIAL))
    between = "a chip receives 3.00 GiB a step from other slices over the data centre's network"
    assert [line for line in report.summary(of_two, TUTORIAL) if between in line] == [
        f"a: {between}, which no estimate includes"
    ]


def test_the_table_names_every_kind_of_traffic_that_was_counted() -> None:
    figures = replace(TUTORIAL.figures, received={"all-to-all": 3 * report.GIB})
    table = list(report.table(replace(TUTORIAL, figures=figures), TUTORIAL))
    assert "| of which all-to-all | 3.00 | 0.00 |" in table
