"""Checks the rows that a recipe names: where they are, and what a run makes of the first ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2

from operations.checks import first_rows, hub
from operations.checks.first_rows import MOST_BYTES, FirstRows, RowsError
from operations.errors import ODD_ANSWER, CallError
from operations.findings import Finding, fine, problem, warning
from operations.google.clients import Clients
from operations.plan import StackPlan

_DRY_RUN: Final = "a dry run reads them all: docs/training/own-data.md, step 3"


def check_data(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the rows are there and that the run can use them, before nodes are asked for."""
    data = getattr(plan.recipe, "data", None)
    row_files = [*getattr(plan.recipe, "row_files", ())]
    if not (data or row_files):
        yield fine("the recipe names no rows")
    for part in data.parts if data else ():
        yield from _of_part(part, plan, clients)
    for files in row_files:
        yield _of_row_files(files, plan, clients)


def _of_part(data: Any, plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """What is known of one data set."""
    for file in data.files:
        yield from _of_file(data, file, clients)
    if data.on_hub:
        yield from _of_hub(data, plan, clients)


def _of_file(data: Any, file: str, clients: Clients) -> Iterator[Finding]:
    in_bucket = file.startswith("gs://")
    name = Path(file).name
    if not in_bucket:
        size = Path(file).stat().st_size
        yield fine(f"{file} is here ({size / 1e6:.1f} MB), and up uploads it")
    else:
        try:
            bucket, _, path = file.removeprefix("gs://").partition("/")
            size = int(clients.call("storage.v1", "objects.get", bucket=bucket, object=path)["size"])
        except CallError as error:
            if not error.missing:
                raise
            yield problem(f"there is no {file}", f"gcloud storage cp {name} {file}, or name another file")
            return
        yield fine(f"{file} is there ({size / 1e6:.1f} MB)")
    try:
        rows = _first_rows(data, file, clients, size)
    except RowsError as error:
        yield problem(f"{name}: {error}", "correct the file: a run ends there")
        return
    if rows is None:
        yield fine(f"{name}: preflight did not look at its rows. {_DRY_RUN}")
    else:
        yield from first_rows.findings_of(data, name, rows)


def _first_rows(data: Any, file: str, clients: Clients, size: int) -> FirstRows | None:
    """The first rows of a file, None if they cannot be read here."""
    in_bucket = file.startswith("gs://")
    if first_rows.needs_training_environment(data, file):
        return None if in_bucket else first_rows.with_training_environment(data, Path(file))
    if in_bucket:
        bucket, _, path = file.removeprefix("gs://").partition("/")
        content = clients.read(bucket, path, most_bytes=MOST_BYTES) or b""
    else:
        with Path(file).open("rb") as opened:
            content = opened.read(MOST_BYTES)
    rows = first_rows.of_content(data, content, file, whole=size <= MOST_BYTES)
    # A row may be longer than what was read.
    return rows if rows.outcomes or rows.whole else None


def _of_hub(data: Any, plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """What the Hub shows of the data set for nothing. It has no rows of some data sets, and no pictures."""
    splits = hub.viewed(plan, clients, "splits", dataset=data.name).get("splits") or ()
    base_split = data.split.partition("[")[0]
    configurations = [entry["config"] for entry in splits if entry.get("split") == base_split]
    entries = []
    if (configuration := data.config or next(iter(configurations), None)) and not data.hook:
        place = {"dataset": data.name, "config": configuration, "split": base_split}
        entries = hub.viewed(plan, clients, "first-rows", **place).get("rows") or []
    # The Hub cuts long cells into a text and names them.
    whole = {
        number: entry["row"]
        for number, entry in enumerate(entries)
        if not {*data.texts}.intersection(entry.get("truncated_cells") or ())
    }
    if entries and not whole:
        what = f"the Hub shows the first {len(entries)} rows of {data.title} cut short, so none was looked at"
        yield fine(f"{what}. {_DRY_RUN}")
    elif not whole or (data.image and data.messages):
        yield warning(f"the Hub shows no rows of {data.title}, split {data.split}", _DRY_RUN)
    else:
        texts = data.model_copy(update={"image": None})
        first = replace(first_rows.of_rows(texts, [*whole.values()]), numbers=[*whole])
        yield from first_rows.findings_of(data, data.title, first)


def _of_row_files(files: Any, plan: StackPlan, clients: Clients) -> Finding:
    """What is known of files that MaxText reads by a pattern."""
    if not files.source:
        what = f"{files.key}: preflight did not look at {files.pattern}. The job does before the slice comes"
        return fine(what)
    name, revision = files.source.name, files.source.revision
    try:
        names = hub.files_of(plan, clients, name, revision, files.path)
    except (OSError, httpx2.HTTPError, *ODD_ANSWER):
        return warning(f"the Hub does not list the files of {name}", "the job looks before the slice comes")
    if not names:
        return problem(
            f"{files.key}: no file fits {files.pattern}",
            f"name files that are there: https://huggingface.co/datasets/{name}/tree/{revision or 'main'}",
        )
    columns = _shown_columns(name, files.path, plan, clients)
    count = f"{len(names)} files of {name}" if len(names) > 1 else f"a file of {name}"
    if not (columns and files.columns):
        return fine(f"{files.key} reads {count}. Their columns are not looked at before the job")
    if missing := [column for column in files.columns if column not in columns]:
        return problem(
            f"{files.key}: {name} has no column {', '.join(missing)}; it has {', '.join(columns)}",
            f"set {files.columns_key} in the section maxtext of the recipe",
        )
    return fine(f"{files.key} reads {', '.join(files.columns)} of {count}")


def _shown_columns(name: str, path: str, plan: StackPlan, clients: Clients) -> list[str]:
    """Columns of the part of a data set that has files at a path, as the Hub's viewer shows them.

    Empty if it does not show them, or if the parts have names from which nobody sees which one it is.
    """
    splits = hub.viewed(plan, clients, "splits", dataset=name).get("splits") or ()
    place, folder = {}, _letters(path.rpartition("/")[0])
    for entry in splits:
        is_alone = len({entry.get("config") for entry in splits}) == 1
        if is_alone or (folder and _letters(str(entry.get("config"))) in folder):
            place = {"config": str(entry.get("config")), "split": str(entry.get("split"))}
            break
    if not place:
        return []
    first = hub.viewed(plan, clients, "first-rows", dataset=name, **place)
    return [str(feature.get("name")) for feature in first.get("features") or ()]


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
