"""The report of a run: what a person finds in it, and what is said of a folder that is no run's."""

import json
import re
from pathlib import Path

import pytest

from operations import command_line
from tests.operations.report.runs import ANSWERS, HOSTILE, run_folder, step_line, write_lines

# Few enough for the parser, and too many for what writes the page.
NESTED = f'{{"recipe": {{"data": {"[" * 400 + "]" * 400}}}}}'


def report(folder: Path) -> str:
    """The page that the command writes about a folder."""
    target = folder.parent / "page.html"
    assert command_line.run(["report", "--folder", str(folder), "--to", str(target)]) == 0
    return target.read_text()


def rows(page: str, table: str) -> list[list[str]]:
    """The cells of a table's body."""
    (body,) = re.findall(rf'<table id="{table}">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("<tr>")[1:]]


def test_figures_on_held_out_rows_stand_beside_those_before_the_training(tmp_path: Path) -> None:
    page = report(run_folder(tmp_path / "mine"))
    assert rows(page, "figures") == [["exact", "0.125", "0.75"], ["loss on held-out rows", "2.75", "1.25"]]
    assert "step 40 of 40" in page and "finished" in page
    assert "goodput 50%" in page


def test_twenty_answers_stand_beside_what_was_wanted(tmp_path: Path) -> None:
    answers = rows(report(run_folder(tmp_path / "mine")), "answers")
    assert len(answers) == min(20, ANSWERS)
    assert [answers[3][0], answers[3][2]] == ["question 3", "wanted 3"]


def test_recipe_and_what_produced_the_run_are_in_it(tmp_path: Path) -> None:
    page = report(run_folder(tmp_path / "mine"))
    for text in ("google/gemma-3-1b-it", "epochs: 3", "workers: 8", "torch: 2.9.1", "2026-11-27"):
        assert text in page


def test_what_a_model_wrote_is_text_and_nothing_else(tmp_path: Path) -> None:
    page = report(run_folder(tmp_path / "mine"))
    assert HOSTILE not in page
    assert "&lt;script&gt;document.title" in page
    assert "<script" not in page


def test_a_chart_shows_each_figure_that_the_log_has(tmp_path: Path) -> None:
    page = report(run_folder(tmp_path / "mine"))
    assert re.findall(r'aria-label="([^"]+)"', page) == [
        "Loss",
        "Learning rate",
        "Gradient norm",
        "Tokens a second",
    ]


def test_a_long_run_makes_no_large_page(tmp_path: Path) -> None:
    short = report(run_folder(tmp_path / "short", steps=600))
    assert len(report(run_folder(tmp_path / "long", steps=60_000))) < 1.5 * len(short)


def test_a_figure_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    report(run_folder(tmp_path / "mine", step_line(41, loss=float("nan"), grad_norm=float("inf"))))


def test_a_run_before_its_first_evaluation_has_a_report(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "mine")
    write_lines(folder / "metrics.jsonl", [step_line(1)])
    for name in ("answers.jsonl", "COMPLETE.json", "time.json"):
        (folder / name).unlink()
    page = report(folder)
    assert "step 1 of 40" in page and '<table id="figures">' not in page


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["report", "--folder", str(tmp_path / "mine")]) == 2
    assert "there is no such folder; name that of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.jsonl", "", "run mine has no step in its log yet; try again when it trains"),
        ("metrics.jsonl", '{"step": "x"}', "mine: line 1 is not what the training writes"),
        ("answers.jsonl", '{"reply": 1}', "mine/answers.jsonl is not what the training writes"),
        ("answers.jsonl", "[]", "mine/answers.jsonl is not what the training writes"),
        ("run.json", "[1]", "mine/run.json is not what the training writes"),
        ("run.json", json.dumps({"recipe": 7}), "mine/run.json is not what the training writes"),
        ("run.json", NESTED, "mine/run.json is not what the training writes"),
        ("run.json", '{"day": "\\ud800"}', "mine/run.json is not what the training writes"),
        (
            "run.json",
            '{"topology": "99999999x9"}',
            "mine: time.json or run.json is not what the training writes",
        ),
        ("answers.jsonl", '{"reply": "\\ud800"}', "mine/answers.jsonl is not what the training writes"),
        ("COMPLETE.json", '{"not_good": "\\ud800"}', "mine: COMPLETE.json is not what the training writes"),
        ("metrics.jsonl", '{"step": 1, "loss": 1e300}', "mine: line 1 is not what the training writes"),
    ],
)
def test_a_file_that_no_training_writes_is_one_line(
    file: str, content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(tmp_path / "mine")
    (folder / file).write_text(content)
    target = tmp_path / "page.html"
    assert command_line.run(["report", "--folder", str(folder), "--to", str(target)]) == 2
    assert capsys.readouterr().err == f"operations report: {message}\n"
    assert not target.exists()
