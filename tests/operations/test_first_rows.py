"""Preflight reads the first rows of a file as the trainer would, and shows one."""

import json
from pathlib import Path
from typing import Any

import pytest

from operations.checks import first_rows
from operations.checks.data import check_data
from operations.checks.first_rows import MOST_BYTES, RowsError
from operations.findings import Level
from operations.google.clients import Clients
from operations.plan import StackPlan
from tests.operations.google_server import GoogleServer
from tests.operations.planned import PROJECT
from workloads.finetune.settings.recipe import load_recipe
from workloads.finetune.settings.sections import Data

RECIPE = """
model: {name: google/gemma-3-1b-it}
data:
  files: [rows.jsonl]
  fields: {product: title}
  system: You sell.
  prompt: "Describe {product}"
  reply: text
"""


@pytest.fixture
def look(tmp_path: Path, google: GoogleServer) -> Any:
    """What preflight finds in rows.jsonl: levels and texts, but for the line that says where the file is."""

    def check(content: bytes, name: str = "rows.jsonl") -> list[tuple[Level, str]]:
        (tmp_path / name).write_bytes(content)
        (tmp_path / "mine.yaml").write_text(RECIPE.replace("rows.jsonl", name))
        recipe = load_recipe(str(tmp_path / "mine.yaml"))
        plan = StackPlan(
            stack="mine", project=PROJECT, region="", configuration={}, resources=(), recipe=recipe
        )
        _where, *findings = check_data(plan, Clients(PROJECT, google.address))
        return [(finding.level, finding.what) for finding in findings]

    return check


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def rows_in(content: bytes, *, whole: bool = True) -> list[Any]:
    return [*Data(name="a/b").rows_in(content, "rows.jsonl", whole=whole)]


LAMP, CLOCK = {"title": "Lamp", "text": "Warm light."}, {"title": "Clock", "text": "The right time."}


def test_a_row_is_shown_as_the_recipe_makes_it(look: Any) -> None:
    assert look(lines(LAMP, CLOCK)) == [
        (
            Level.FINE,
            "row 0 of rows.jsonl without the chat template: system: You sell. | user: Describe Lamp | "
            "assistant (trained): Warm light.",
        )
    ]


def test_a_long_text_is_cut(look: Any) -> None:
    ((_, text),) = look(lines({"title": "Lamp", "text": "light " * 1000}))
    assert len(text) < 400 and text.endswith("...")


@pytest.mark.parametrize(
    ("content", "level", "text"),
    [
        (lines({"name": "Lamp", "text": "a"}), Level.PROBLEM, "has no column title; it has name, text"),
        (
            lines(*[LAMP] * 10, {"title": "Clock", "text": " "}),
            Level.WARNING,
            "a run leaves out 1 of all 11 rows: 10 (the first is 0). Row 10: a text that the recipe",
        ),
        (lines(*[LAMP] * 10, {"title": "Clock"}), Level.WARNING, "1 of all 11 rows: 10"),
        (
            lines(LAMP, {"title": "Clock"}),
            Level.PROBLEM,
            "a text that the recipe needs is empty; 1 of all 2 rows cannot be trained: 1",
        ),
        (lines(LAMP, ["Clock"]), Level.PROBLEM, "row 1 (the first is 0) is no object with columns"),
        (lines(LAMP) + b'{"title": "Clo', Level.PROBLEM, "row 1 (the first is 0) is no JSON"),
        (lines(LAMP) + b'{"title": "\xff"}', Level.PROBLEM, "line 2 is not UTF-8"),
        (lines(LAMP, {"title": "\ud83d", "text": "a"}), Level.PROBLEM, "row 1 (the first is 0) has half a"),
        (b"", Level.PROBLEM, "has no rows"),
    ],
)
def test_a_row_that_a_run_cannot_use_is_named_with_file_and_number(
    content: bytes, level: Level, text: str, look: Any
) -> None:
    (finding,) = [(level, what) for level, what in look(content) if level is not Level.FINE]
    assert finding[0] is level
    assert finding[1].startswith("rows.jsonl") and text in finding[1]
    assert "\n" not in finding[1]


def test_fewer_rows_than_the_recipe_takes_are_a_problem(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.RECIPE", f"{RECIPE}  test_rows: 2\n")
    first, _shown = look(lines(LAMP, CLOCK))
    assert first == (Level.PROBLEM, "rows.jsonl has 2 usable rows, and the recipe takes 3")
    assert look(lines(LAMP, CLOCK, LAMP))[0][0] is Level.FINE


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([LAMP, CLOCK], indent=1).encode(),
        b"\xef\xbb\xbf" + lines(LAMP, CLOCK),
        lines(LAMP) + b"\r\n\r\n" + lines(CLOCK),
        (json.dumps(LAMP, indent=1) + json.dumps(CLOCK, indent=1)).encode(),
    ],
    ids=["list", "byte-order-mark", "blank-lines", "lines-in-a-row"],
)
def test_rows_of_json_may_be_written_in_any_way(content: bytes) -> None:
    assert rows_in(content) == [LAMP, CLOCK]


def test_of_a_large_file_only_whole_rows_at_its_beginning_count(look: Any) -> None:
    row = {"title": "Lamp", "text": "light " * 10_000}
    ((level, text),) = look(lines(*[row] * 30))
    assert level is Level.FINE and text.startswith("row 0 of rows.jsonl")
    cut = lines(*[row] * 30)[:MOST_BYTES]
    assert len(rows_in(cut, whole=False)) == MOST_BYTES // len(lines(row))
    assert rows_in(json.dumps([LAMP, CLOCK], indent=1).encode()[:70], whole=False) == [LAMP]


def test_a_row_longer_than_what_is_read_is_left_to_the_dry_run(look: Any) -> None:
    ((level, text),) = look(lines({"title": "Lamp", "text": "light " * 200_000}))
    assert level is Level.FINE and "preflight did not look at its rows" in text


def test_rows_of_parquet_are_read_with_the_training_environment_or_not_at_all(
    look: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "_TRAINING_PYTHON", tmp_path / "absent")
    ((level, text),) = look(b"PAR1", "rows.parquet")
    assert level is Level.FINE and "rows.parquet: preflight did not look at its rows" in text
    python = tmp_path / "python"
    turns = [{"role": "user", "content": "Describe Lamp"}, {"role": "assistant", "content": "Warm light."}]
    answer = json.dumps({"columns": ["title", "text", "picture"], "outcomes": [{"turns": turns}]})
    python.write_text(f"#!/bin/sh\ncat <<'E'\n{answer}\nE\n")
    python.chmod(0o755)
    monkeypatch.setattr(first_rows, "_TRAINING_PYTHON", python)
    ((level, text),) = look(b"PAR1", "rows.parquet")
    assert level is Level.FINE and "Describe Lamp" in text


def test_a_parquet_file_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho Traceback >&2\necho 'ArrowInvalid: no magic bytes' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(first_rows, "_TRAINING_PYTHON", python)
    with pytest.raises(RowsError, match="ArrowInvalid: no magic bytes"):
        first_rows.with_training_environment(Data(name="a/b"), tmp_path / "rows.parquet")
