"""The rows that MaxText takes from the Hub: preflight looks at their files and columns before the slice."""

from typing import Any, Final

import pytest

from operations.findings import Level
from tests.operations.changes import Change, answering, assert_told, nothing
from tests.operations.conftest import Check
from tests.operations.good_project import VIEWER, GoodProject
from tests.operations.google_server import Page
from tests.operations.planned import IMAGE

OK, PROBLEM, WARNING = Level.FINE, Level.PROBLEM, Level.WARNING
NAME: Final = "team/texts"
TREE: Final = f"huggingface/api/datasets/{NAME}/tree/main"
STACK: Final = f"tpu-maxtext imageUri={IMAGE} dataset=hf://datasets/{NAME}/sample/10BT/00*.parquet"
HERE: Final = f"tpu-maxtext imageUri={IMAGE} dataset=/data/texts/*.parquet"


def hub(
    *columns: str, files: tuple[str, ...] = ("000.parquet", "013.parquet"), part: str = "sample-10BT"
) -> Change:
    """A data set with these files in a folder, and the columns of the part that the Hub shows of it."""

    def plant(project: GoodProject) -> None:
        def show(path: str, content: Any) -> None:
            project.server.plant_page(path, Page(content=content))

        entries = [
            {"type": "file", "path": f"sample/10BT/{name}", "size": 1, "oid": "0" * 40} for name in files
        ]
        show(f"huggingface/api/datasets/{NAME}", {"id": NAME, "sha": "1" * 40})
        show(f"{TREE}/sample%2F10BT", entries)
        show(f"{TREE}/sample", [{"type": "directory", "path": "sample/10BT", "oid": "0" * 40}])
        parts = [{"config": name, "split": "train"} for name in ("CC-2024", part)]
        show(f"{VIEWER}/splits", {"splits": parts})
        show(f"{VIEWER}/first-rows", {"features": [{"name": name} for name in columns]})

    return plant


CHANGES: list[tuple[str, Change, Level, str]] = [
    (STACK, hub("text", "id"), OK, "grain_train_files reads text of a file of team/texts"),
    (
        STACK,
        hub("content", "id"),
        PROBLEM,
        "grain_train_files: team/texts has no column text; it has content, id\nset train_data_columns",
    ),
    (
        STACK,
        hub("text", files=("013.parquet",)),
        PROBLEM,
        "no file fits hf://datasets/team/texts/sample/10BT/00*",
    ),
    # Nobody sees which part the files are.
    (STACK, hub("content", part="default"), OK, "Their columns are not looked at before the job"),
    (
        STACK,
        answering(f"huggingface/api/datasets/{NAME}", 503),
        WARNING,
        "does not list the files of team/texts",
    ),
    (HERE, nothing, OK, "preflight did not look at /data/texts/*.parquet"),
]


@pytest.mark.parametrize(("stack", "change", "level", "words"), CHANGES)
def test_files_and_columns_are_looked_at_before_the_slice(
    stack: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(stack, "data", change, level, words, good, check)
